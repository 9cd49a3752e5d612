//! A reader that counts at full speed.

use crate::scene::day;
use refrain_postgres::{Limits, Link, Session};
use refrain_testkit::postgres::Database;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Looks at the table `flights` until it is stopped: each day is there whole, of one attempt, and never vanishes again.
pub(crate) struct Watch {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<u64, String>>>,
}

impl Watch {
    pub(crate) fn start(database: &Database) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let link = Link::parse(&database.url()).expect("the URL of a test database");
        let thread = thread::spawn({
            let over = Arc::clone(&over);
            move || look(&link, &over)
        });
        Self { over, thread: Some(thread) }
    }

    /// Whatever was seen was whole.
    #[track_caller]
    pub(crate) fn end(mut self) {
        self.over.store(true, Ordering::Relaxed);
        let seen = self.thread.take().expect("it is ended once").join().expect("the reader's thread");
        match seen {
            Ok(rounds) => assert!(rounds > 0, "the reader never looked"),
            Err(torn) => panic!("a reader saw {torn}"),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn look(link: &Link, over: &AtomicBool) -> Result<u64, String> {
    let sql = "SELECT dt::text, count(*)::text, sum(flights)::text, count(DISTINCT attempt)::text \
               FROM public.flights GROUP BY dt";
    let (mut rounds, mut known, mut session) = (0, BTreeSet::new(), None);
    loop {
        let last = over.load(Ordering::Relaxed);
        // While the server is down nobody sees anything.
        let mut now = session.take().or_else(|| Session::open(link, "reader").ok());
        let rows = now.as_mut().and_then(|session| {
            let mut transaction = session.snapshot(&Limits::default()).ok()?;
            let rows = transaction.query(sql, &[]).ok()?;
            transaction.roll_back().ok()?;
            Some(rows)
        });
        if let Some(rows) = rows {
            rounds += 1;
            let seen = whole_days(&rows)?;
            if let Some(gone) = known.difference(&seen).next() {
                return Err(format!("nothing of {gone}, which was there before"));
            }
            known = seen;
            session = now;
        }
        if last {
            return Ok(rounds);
        }
    }
}

/// The days of the rows, each of them whole.
fn whole_days(rows: &[Vec<Option<String>>]) -> Result<BTreeSet<String>, String> {
    let mut days = BTreeSet::new();
    for row in rows {
        let [Some(date), Some(rows), Some(flights), Some(attempts)] = row.as_slice() else {
            return Err(format!("{row:?}"));
        };
        let whole = day(date);
        if (format!("{rows}|{flights}"), attempts.as_str()) != (whole.clone(), "1") {
            return Err(format!("{rows} rows, {flights} flights, {attempts} attempts of {date}, which has {whole}"));
        }
        days.insert(date.clone());
    }
    Ok(days)
}
