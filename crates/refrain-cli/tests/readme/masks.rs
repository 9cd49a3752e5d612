//! What differs from run to run, masked.

/// The text with `ID`, `TIME`, `PROCESS` and `N` for what no two runs share.
pub(crate) fn masked(text: &str) -> String {
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn line(line: &str) -> String {
    // The shell names the process and the command.
    if line.contains("Killed") {
        return "Killed".to_owned();
    }
    let ends = [' ', ',', '(', ')'];
    let pieces = line.split_inclusive(ends).map(|piece| {
        let word = piece.trim_end_matches(ends).trim_end_matches(':');
        let mask = match word {
            _ if is_id(word) => "ID",
            _ if is_time(word) => "TIME",
            // Two hosts share the dates as they come.
            _ if is_shared(line) && is_number(word) => "N",
            _ => word,
        };
        format!("{mask}{}", &piece[word.len()..])
    });
    versions(&process(&pieces.collect::<String>()))
}

/// `/v1-01a22be9-40c9-75fd-882f-77b5a6bf5fe1/` in the URL of an object.
fn versions(line: &str) -> String {
    let parts = line.split_inclusive('/').map(|part| match part.trim_end_matches('/').split_once('-') {
        Some((version, attempt)) if version.starts_with('v') && is_id(attempt) => format!("{version}-ID/"),
        _ => part.to_owned(),
    });
    parts.collect()
}

/// Whether a line counts what one of two hosts did.
fn is_shared(line: &str) -> bool {
    line.starts_with("backfill: delays") || line.starts_with("backfill: daily_delays")
}

/// `pid 12 on host, user me`.
fn process(line: &str) -> String {
    let Some((before, rest)) = line.split_once("pid ") else { return line.to_owned() };
    let after = rest.find(')').map_or("", |end| &rest[end..]);
    format!("{before}PROCESS{after}")
}

fn is_id(word: &str) -> bool {
    word.len() == 36 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

fn is_time(word: &str) -> bool {
    word.len() == 20 && word.ends_with('Z') && word.as_bytes()[10] == b'T'
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_digit())
}
