//! Answers of the attempt's machine that no order of events may change.

use refrain_core::{Answer, Attempt, AttemptId, Cause, Goal, Granted, SlotAddress, StoreId, StoreIdentity, Token};
use uuid::Uuid;

fn claiming() -> Attempt {
    let slot = SlotAddress { sink: "s".to_owned(), location: "1".to_owned() };
    let mut attempt = Attempt::new(AttemptId::from_uuid(Uuid::from_u128(1)), Goal::Publish, [slot]);
    let store = StoreIdentity { store_id: StoreId::from_uuid(Uuid::from_u128(2)), ancestors: [].into() };
    attempt.acquired(store, &Granted { token: Token::new(1), run: None, unclean: None });
    attempt
}

#[test]
fn giving_up_before_the_anchor_commit_is_no_doubt() {
    let mut attempt = claiming();
    attempt.gave_up();
    assert_eq!(attempt.answer(), Some(&Answer::NotPublished(Cause::Failed)));
}

#[test]
fn an_answer_is_final() {
    let mut attempt = claiming();
    attempt.failed();
    attempt.lease_lost();
    assert_eq!(attempt.answer(), Some(&Answer::NotPublished(Cause::Failed)));
    attempt.finished();
    attempt.failed();
    attempt.gave_up();
    assert_eq!(attempt.answer(), Some(&Answer::NotPublished(Cause::Failed)));
}
