//! How a partition's state is shown: a word, and one sign and one colour for a cell.

use anstyle::{AnsiColor, Style};
use refrain::survey::State;

/// Every state, the one that needs a person most first.
const BY_URGENCY: [State; 10] = [
    State::Unreadable,
    State::Failed,
    State::Unsettled,
    State::Drifted,
    State::Running,
    State::Missing,
    State::Stale,
    State::Open,
    State::Published,
    State::Compacted,
];

/// The state in a word or three.
pub(crate) fn word(state: State) -> &'static str {
    match state {
        State::Published => "published",
        State::Stale => "stale",
        State::Drifted => "changed by hand",
        State::Running => "running",
        State::Failed => "failed",
        State::Unsettled => "unsettled",
        State::Missing => "missing",
        State::Open => "not over yet",
        State::Unreadable => "unreadable",
        State::Compacted => "compacted",
    }
}

/// One sign per state, so that a column can be read at a glance and without colours.
pub(super) fn mark(state: State) -> &'static str {
    match state {
        State::Published => "+",
        State::Stale => "~",
        State::Drifted => "!",
        State::Running => ">",
        State::Failed => "x",
        State::Unsettled => "?",
        State::Missing => ".",
        State::Open => "o",
        State::Unreadable => "#",
        State::Compacted => "=",
    }
}

/// The state that a sign stands for.
pub(super) fn with_mark(sign: &str) -> Option<State> {
    BY_URGENCY.into_iter().find(|state| mark(*state) == sign)
}

/// One colour per state. The sign says the same: a colour is never all there is.
fn style(state: State) -> Style {
    let color = match state {
        State::Published => AnsiColor::Green,
        State::Stale => AnsiColor::Yellow,
        State::Drifted => AnsiColor::Magenta,
        State::Running => AnsiColor::Cyan,
        State::Failed => AnsiColor::Red,
        State::Unsettled => AnsiColor::BrightMagenta,
        State::Missing => AnsiColor::Blue,
        State::Open => AnsiColor::BrightBlack,
        State::Unreadable => AnsiColor::BrightRed,
        State::Compacted => AnsiColor::BrightGreen,
    };
    let style = Style::new().fg_color(Some(color.into()));
    if is_trouble(state) && state != State::Stale { style.bold() } else { style }
}

/// The state's sign, in its colour if there are colours.
pub(super) fn painted(state: State, colors: bool) -> String {
    let mark = mark(state);
    if !colors {
        return mark.to_owned();
    }
    let style = style(state);
    format!("{style}{mark}{style:#}")
}

/// Of several states the one that needs a person most.
pub(super) fn most_urgent(states: &[State]) -> Option<State> {
    BY_URGENCY.into_iter().find(|state| states.contains(state))
}

/// Of which nothing is known.
pub(super) fn is_dull(state: State) -> bool {
    matches!(state, State::Missing | State::Open)
}

/// What is not hidden among others.
pub(super) fn needs_a_look(state: State) -> bool {
    is_trouble(state) || state == State::Running
}

/// What a person should look into.
pub(super) fn is_trouble(state: State) -> bool {
    matches!(state, State::Failed | State::Unsettled | State::Drifted | State::Stale | State::Unreadable)
}

#[cfg(test)]
mod tests {
    use super::{BY_URGENCY, mark, style, with_mark, word};

    #[test]
    fn every_state_has_a_sign_a_word_and_a_colour_of_its_own() {
        for (index, one) in BY_URGENCY.into_iter().enumerate() {
            assert_eq!((with_mark(mark(one)), mark(one).len()), (Some(one), 1));
            for other in BY_URGENCY.into_iter().skip(index + 1) {
                assert_ne!((mark(one), word(one)), (mark(other), word(other)));
                assert_ne!(style(one).get_fg_color(), style(other).get_fg_color(), "{one:?} and {other:?}");
            }
        }
    }
}
