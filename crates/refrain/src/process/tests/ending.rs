//! Time limits, signals, the lost lease.

use std::thread;
use std::time::Duration;

use super::{shell, witnessed};
use crate::process::{Event, TaskExit, Why, channel, find_by_attempt, spawn, supervise};

/// So long that a test which had to wait for it would be noticed.
const FOR_EVER: Duration = Duration::from_hours(1);

#[test]
fn proc_02_time_limit_ends_the_whole_tree() {
    let (mut spec, mut output) = witnessed(shell(
        "trap '' TERM; (trap '' TERM; sleep 300; echo late) & setsid sh -c 'trap \"\" TERM; sleep 300; echo late' & sleep 300; wait",
    ));
    spec.timeout = Some(Duration::from_millis(300));
    spec.grace = Duration::from_millis(100);
    let attempt = spec.attempt.clone();
    let (_sender, events) = channel();
    let ended = supervise(spawn(spec).unwrap(), &events).unwrap();
    assert_eq!(ended.why, Why::TimedOut);
    assert!(ended.survivors.is_empty(), "{ended:?}");
    assert_eq!(find_by_attempt(&attempt).unwrap(), []);
    assert_eq!(output.rest(), "", "nobody is left to write");
}

#[test]
fn proc_02_a_command_that_ends_in_time_is_not_timed_out() {
    let mut spec = shell("exit 3");
    spec.timeout = Some(FOR_EVER);
    let (_sender, events) = channel();
    let ended = supervise(spawn(spec).unwrap(), &events).unwrap();
    assert_eq!((ended.why, ended.exit), (Why::Exited, TaskExit::Code(3)));
}

#[test]
fn the_command_may_clean_up_after_the_first_signal() {
    for (event, trap, why) in [
        (Event::Signal(2), "INT", Why::Signalled(2)),
        (Event::Signal(15), "TERM", Why::Signalled(15)),
        (Event::Signal(1), "TERM", Why::Signalled(1)),
        (Event::LeaseLost, "TERM", Why::LeaseLost),
    ] {
        let command = format!("trap 'echo cleaned up; exit 4' {trap}; echo ready; while :; do sleep 0.1; done");
        let (mut spec, mut output) = witnessed(shell(&command));
        spec.grace = FOR_EVER;
        let running = spawn(spec).unwrap();
        let (sender, events) = channel();
        assert_eq!(output.line(), "ready");
        sender.send(event);
        let ended = supervise(running, &events).unwrap();
        assert_eq!(ended.exit, TaskExit::Code(4), "{event:?}");
        assert_eq!(ended.why, why);
        assert_eq!(output.rest(), "cleaned up\n");
    }
}

#[test]
fn a_second_signal_kills_at_once() {
    let (mut spec, mut output) = witnessed(shell("trap 'echo deaf' TERM; echo ready; while :; do sleep 0.1; done"));
    spec.grace = FOR_EVER;
    let running = spawn(spec).unwrap();
    let (sender, events) = channel();
    let sends = thread::spawn(move || {
        assert_eq!(output.line(), "ready");
        sender.send(Event::Signal(15));
        assert_eq!(output.line(), "deaf");
        sender.send(Event::Signal(15));
        output.rest()
    });
    let ended = supervise(running, &events).unwrap();
    assert_eq!((ended.exit, ended.why), (TaskExit::Signal(9), Why::Signalled(15)));
    assert_eq!(sends.join().unwrap(), "");
}

#[test]
fn the_grace_holds_for_grandchildren_too() {
    // The shell dies of TERM at once; its child needs the grace to finish its work.
    let (mut spec, mut output) = witnessed(shell(
        "sh -c 'trap \"sleep 0.5; echo flushed; exit 0\" TERM; echo ready; while :; do sleep 0.1; done'; echo not reached",
    ));
    spec.grace = FOR_EVER;
    let running = spawn(spec).unwrap();
    let (sender, events) = channel();
    assert_eq!(output.line(), "ready");
    sender.send(Event::Signal(15));
    let ended = supervise(running, &events).unwrap();
    assert_eq!(ended.exit, TaskExit::Signal(15));
    assert!(ended.leftovers.is_empty(), "{ended:?}");
    assert_eq!(output.rest(), "flushed\n");
}

#[test]
fn a_stopped_command_can_be_ended() {
    let (mut spec, mut output) = witnessed(shell("echo ready; kill -STOP $$; echo woken"));
    spec.grace = FOR_EVER;
    let running = spawn(spec).unwrap();
    let (sender, events) = channel();
    assert_eq!(output.line(), "ready");
    sender.send(Event::Signal(15));
    assert_eq!(supervise(running, &events).unwrap().why, Why::Signalled(15));
    output.rest();
}

#[test]
fn events_outside_of_supervision_are_not_lost() {
    let (sender, events) = channel();
    sender.send(Event::Signal(15));
    assert_eq!(events.try_next(), Some(Event::Signal(15)));
    assert_eq!(events.try_next(), None);
}
