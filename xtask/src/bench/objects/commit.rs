//! The commit must not depend on the number of objects, and a publication asks for little beside its data.

use super::{Publisher, bucket, files};
use crate::bench::rounds::{Contender, median, medians};
use crate::bench::space::Space;
use crate::bench::table::{Row, Target};
use crate::command::Outcome;
use refrain_testkit::object::{HttpProxy, Kind};
use std::cell::RefCell;
use std::time::Duration;

const ROUNDS: u32 = 5;
const FEW: usize = 10;
const MANY: usize = 10_000;

pub(crate) fn measure(space: &Space) -> Outcome<Vec<Row>> {
    let publisher = |count: usize| -> Outcome<Publisher<'_>> {
        let source = space.fresh(&format!("objects-source-{count}"))?;
        files(&source, count, 64)?;
        Publisher::new(space, bucket(Kind::MiniStack), source)
    };
    let (few, many) = (publisher(FEW)?, publisher(MANY)?);
    let seals = RefCell::new(Vec::new());
    let mut contenders: Vec<Contender<'_>> = vec![
        Box::new(|_| Ok(few.publish()?.commit)),
        Box::new(|_| {
            let timings = many.publish()?;
            seals.borrow_mut().push(timings.seal);
            Ok(timings.commit)
        }),
    ];
    let times = medians(ROUNDS, &mut contenders)?;
    drop(contenders);
    let an_object = median(seals.into_inner()) / u32::try_from(MANY).unwrap_or(u32::MAX);
    Ok(vec![
        Row::ratio("commit of 10,000 objects", times[1], ("of 10 objects", times[0]), Target::AtMost(1.5)),
        Row::number("seal of one of them", micros(an_object), "µs", Target::None),
        Row::number("requests of a publication beside its data", requests(&few)?, "", Target::AtMost(4.0)),
    ])
}

fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round()
}

/// What one more publication asks of the bucket, without the objects themselves.
fn requests(publisher: &Publisher<'_>) -> Outcome<f64> {
    let proxy = HttpProxy::start(publisher.bucket.server().port());
    let mut command = publisher.command();
    command.envs(publisher.bucket.through(proxy.port()).environment());
    publisher.space.time(command)?;
    let control = proxy.requests().into_iter().filter(|exchange| !exchange.path.contains("/data/")).count();
    Ok(f64::from(u32::try_from(control).unwrap_or(u32::MAX)))
}
