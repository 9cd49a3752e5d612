//! `refrain config show`: every value that is in force and where it came from.

use crate::context::Context;
use crate::output;
use refrain::config::{Address, Config, FILE_NAME, Settings};
use refrain::core::{Backoff, Keep, PartitionScheme, PinMode, RetryPolicy, format_duration, without_password};
use refrain::process::DEFAULT_GRACE;
use refrain::table::{SourceSpec, TableSpec};
use refrain::task::{CommandClock, CommandLine, InputSource, InputSpec, OnChange, OutputSpec};
use refrain::{Result, Task};
use std::path::Path;

/// Shows the configuration. A location is shown without its password.
pub(crate) fn config(context: &Context) -> Result<()> {
    let home = context.find_home()?;
    let origin = match (&context.home_flag, &context.home) {
        (Some(_), _) => "--home",
        (None, Some(_)) => "REFRAIN_HOME",
        (None, None) => "found from the current directory",
    };
    line("home", &quoted(&home.directory.display().to_string()), origin);
    let origin = if home.config.store.is_some() { FILE_NAME } else { "default" };
    line("store", &quoted(&refrain::store::shown(&home.config)), origin);
    for staging in &home.config.staging {
        line("staging", &quoted(&staging.display().to_string()), FILE_NAME);
    }
    let used = home.config.buckets();
    for (bucket, settings) in home.config.objects.declared() {
        objects(&home.config, bucket, settings, used.contains(bucket));
    }
    for declared in &home.config.tasks {
        task(&home.config, declared, &home.directory);
    }
    // What cannot be run is shown, and is an error all the same.
    home.config.tasks.iter().try_for_each(|declared| home.config.task(declared.name.as_str()).map(drop))
}

/// How a bucket is reached; keys of access are not told here, and an endpoint without user and password.
fn objects(config: &Config, bucket: &Address, settings: &Settings, used: bool) {
    let file = if used { FILE_NAME.to_owned() } else { format!("{FILE_NAME}, where nothing else names this bucket") };
    let show = |key: &str, value: &str, default: bool| {
        let (scheme, bucket) = (bucket.scheme.name(), &bucket.bucket);
        let stated = config.states(&format!("objects.{scheme}://{bucket}.{key}"));
        let name = format!("objects.\"{scheme}://{bucket}\".{key}");
        line(&name, value, if default && !stated { "default" } else { &file });
    };
    let texts = [
        ("endpoint", &settings.endpoint),
        ("region", &settings.region),
        ("profile", &settings.profile),
        ("account", &settings.account),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            show(key, &quoted(&without_password(value)), false);
        }
    }
    show("allow_http", &settings.allow_http.to_string(), !settings.allow_http);
    show("virtual_hosted", &settings.virtual_hosted.to_string(), !settings.virtual_hosted);
    show("area", &quoted(&settings.area(bucket).to_string()), settings.area.is_none());
}

fn task(config: &Config, task: &Task, home: &Path) {
    let show = |key: &str, value: &str, default: bool| {
        let name = format!("task.{}.{key}", task.name);
        line(&name, value, if default && !config.states(&name) { "default" } else { FILE_NAME });
    };
    match &task.partitions {
        PartitionScheme::Dates(calendar) => {
            show("partition", &quoted(calendar.grain().as_str()), false);
            show("timezone", &quoted(calendar.zone_name()), calendar.zone_name() == "UTC");
        }
        PartitionScheme::Values(values) => show("partition", &format!("{{ values = {values:?} }}"), false),
        _ => show("partition", "\"none\"", true),
    }
    match &task.command {
        Some(CommandLine::Shell(text)) => show("command", &quoted(text), false),
        Some(CommandLine::Argv(words)) => show("command", &format!("{words:?}"), false),
        None => {}
    }
    if !task.code.is_empty() {
        show("code", &format!("{:?}", task.code), false);
    }
    show("cwd", &quoted(&task.directory.display().to_string()), task.directory == home);
    for (name, value) in &task.params {
        show(&format!("param.{name}"), &quoted(value), false);
    }
    for input in &task.inputs {
        show(&format!("in.{}", input.name), &input_value(input), false);
    }
    for output in &task.outputs {
        show(&format!("out.{}", output.name), &output_value(output), false);
    }
    let on_change = match task.on_change {
        OnChange::Keep => "keep",
        OnChange::Replace => "replace",
        OnChange::Refuse => "refuse",
    };
    show("on_change", &quoted(on_change), task.on_change == OnChange::default());
    show("lease.ttl", &quoted(&format_duration(task.lease_ttl)), task.lease_ttl == Task::DEFAULT_LEASE_TTL);
    let keep = Keep::default();
    show("keep.versions", &task.keep.versions.to_string(), task.keep.versions == keep.versions);
    show("keep.grace", &quoted(&format_duration(task.keep.grace)), task.keep.grace == keep.grace);
    if let Some(timeout) = task.timeout {
        show("timeout", &quoted(&format_duration(timeout)), false);
    }
    show("grace", &quoted(&format_duration(task.grace)), task.grace == DEFAULT_GRACE);
    retries(&task.retry, show);
    show("inherit_locale", &task.inherit_locale.to_string(), !task.inherit_locale);
    let clock = match task.clock {
        CommandClock::Wall => "wall",
        CommandClock::Logical => "logical",
    };
    show("clock", &quoted(clock), task.clock == CommandClock::default());
}

fn retries(retry: &RetryPolicy, show: impl Fn(&str, &str, bool)) {
    let default = RetryPolicy::default();
    show("retry.attempts", &retry.attempts.to_string(), retry.attempts == default.attempts);
    let Backoff { least, most } = retry.backoff;
    let backoff = format!("{}..{}", format_duration(least), format_duration(most));
    show("retry.backoff", &quoted(&backoff), retry.backoff == default.backoff);
    if let Some(on) = &retry.on {
        let entry = |entry: String| if entry.parse::<u8>().is_ok() { entry } else { quoted(&entry) };
        show("retry_on", &format!("[{}]", on.entries().map(entry).collect::<Vec<_>>().join(", ")), false);
    }
}

fn input_value(input: &InputSpec) -> String {
    match &input.source {
        InputSource::Path { location, mode } => {
            let path = quoted(&without_password(location.as_str()));
            match mode {
                PinMode::Auto => path,
                mode => format!("{{ path = {path}, pin = \"{}\" }}", mode.name()),
            }
        }
        InputSource::Publication(publication) => publication.to_string(),
    }
}

fn output_value(output: &OutputSpec) -> String {
    let path = quoted(&without_password(output.location.as_str()));
    let mut more = Vec::new();
    more.extend(output.stdout.then(|| "stdout = true".to_owned()));
    more.extend(output.allow_empty.then(|| "allow_empty = true".to_owned()));
    more.extend(output.min_bytes.map(|bytes| format!("min_bytes = {bytes}")));
    more.extend(output.min_files.map(|files| format!("min_files = {files}")));
    more.extend(output.min_rows.map(|rows| format!("min_rows = {rows}")));
    more.extend(output.check.as_ref().map(|check| format!("check = {}", quoted(check))));
    if let Some(table) = &output.table {
        return table_value(table, more);
    }
    if more.is_empty() { path } else { format!("{{ path = {path}, {} }}", more.join(", ")) }
}

/// A table as it is declared; of the URL only what is no secret.
fn table_value(table: &TableSpec, more: Vec<String>) -> String {
    let details = &table.details;
    let list = |name: &str, items: &[String]| {
        let items: Vec<_> = items.iter().map(|item| quoted(item)).collect();
        (!items.is_empty()).then(|| format!("{name} = [{}]", items.join(", ")))
    };
    let mut all = vec![
        format!("to = {}", quoted(&table.link.to_string())),
        format!("table = {}", quoted(&table.relation.to_string())),
        format!("mode = {}", quoted(table.mode.name())),
    ];
    let scope: Vec<_> = table.scope.iter().map(ToString::to_string).collect();
    all.extend((!scope.is_empty()).then(|| format!("where = {}", quoted(&scope.join(" and ")))));
    match &table.source {
        SourceSpec::File { name, format, null } => {
            all.extend([format!("from = {}", quoted(name)), format!("format = {}", quoted(format))]);
            all.extend(null.as_ref().map(|null| format!("null = {}", quoted(null))));
        }
        SourceSpec::Sql { file } => all.push(format!("sql = {}", quoted(file))),
        SourceSpec::Direct => {}
    }
    all.extend(list("key", &details.key));
    all.extend(list("exclude", &details.exclude));
    let set: Vec<_> = details.set.iter().map(|(column, to)| format!("{} = {}", quoted(column), quoted(to))).collect();
    all.extend((!set.is_empty()).then(|| format!("set = {{ {} }}", set.join(", "))));
    all.extend(list("order_by", &details.order_by));
    all.extend(list("covers", &details.covers));
    all.extend(details.run_column.as_ref().map(|column| format!("run_column = {}", quoted(column))));
    let flags = [
        ("set_again", details.set_again),
        ("delete_missing", details.delete_missing),
        ("allow_shrink", details.allow_shrink),
        ("truncate", details.truncate),
    ];
    all.extend(flags.iter().filter(|(_, set)| *set).map(|(name, _)| format!("{name} = true")));
    all.extend(more);
    format!("{{ {} }}", all.join(", "))
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

fn line(name: &str, value: &str, origin: &str) {
    output::data(&format!("{name} = {value}  # {origin}"));
}
