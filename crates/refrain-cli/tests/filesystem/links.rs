//! Symbolic links that lead out of an output.

use crate::scene::{BIN, beside_heads};
use crate::{GUARD, run};
use refrain_testkit::program::Home;
use std::fs;

#[test]
fn dir_07_what_a_link_in_a_failed_staging_leads_to_is_left_alone() {
    let home = Home::temp(BIN);
    let precious = home.write("precious/file", "precious");
    let directory = precious.parent().unwrap().display().to_string();
    let inside = format!("echo 1 > $REFRAIN_OUT/part; ln -s {directory} $REFRAIN_OUT/x; exit 9");
    run(&home, "inside", "inside/", &inside).expect_code(9);
    let root = format!("rmdir $REFRAIN_OUT; ln -s {directory} $REFRAIN_OUT; exit 9");
    run(&home, "root", "root/", &root).expect_code(9);
    // The same, for whoever removes the staging of a killed attempt.
    let killed = home.refrain().env("REFRAIN_CRASH_AT", "after-task=kill");
    killed.run(crate::args("killed", "killed/", &inside.replace("exit 9", "exit 0"))).expect_signal(9);
    killed.run(crate::args("killed2", "killed2/", &root.replace("exit 9", "exit 0"))).expect_signal(9);
    home.run(["recover"]).success();
    home.run(["gc"]).success();
    assert_eq!(home.read("precious/file"), "precious");
    assert_eq!(beside_heads(&home.join(".refrain/slots")), Vec::<String>::new(), "left over");
}

#[test]
fn dir_07_links_that_lead_out_of_the_output_are_refused_and_inner_ones_published() {
    let home = Home::temp(BIN);
    let precious = home.write("precious/file", "precious");
    for (number, link) in
        [precious.display().to_string(), "../../up".to_owned(), "nowhere".to_owned()].iter().enumerate()
    {
        let script = format!("echo 1 > $REFRAIN_OUT/part; ln -s {link} $REFRAIN_OUT/x");
        let out = format!("out{number}/");
        run(&home, &format!("t{number}"), &out, &script).expect_code(GUARD).says("symbolic link");
        assert!(!home.exists(&out));
    }
    let root = "rmdir $REFRAIN_OUT; ln -s /etc $REFRAIN_OUT";
    run(&home, "root", "root/", root).expect_code(GUARD).says("Nothing was published.");
    let inner = "mkdir $REFRAIN_OUT/d; echo 1 > $REFRAIN_OUT/d/part; ln -s d/part $REFRAIN_OUT/latest";
    run(&home, "inner", "inner/", inner).success();
    assert_eq!(home.read("inner/latest"), "1\n");
    assert!(fs::symlink_metadata(home.join("inner/latest")).unwrap().is_symlink());
}
