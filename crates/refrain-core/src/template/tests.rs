//! Locations: what is filled in, what is refused, and which templates keep partitions apart.

use super::Template;
use crate::{Calendar, Grain, Partition, PartitionScheme};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn partition(grain: Grain, zone: &str, key: &str) -> Partition {
    Partition::of(Calendar::new(grain, zone).unwrap().interval_of_key(key).unwrap())
}

fn day() -> Partition {
    partition(Grain::Daily, "UTC", "2025-03-24")
}

fn named(name: &str) -> Partition {
    Partition { key: name.to_owned(), interval: None }
}

fn params(values: &[(&str, &str)]) -> BTreeMap<String, String> {
    values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn render(template: &str, partition: &Partition) -> String {
    Template::parse(template).unwrap().render(partition, &params(&[("REGION", "EU")])).unwrap()
}

#[test]
fn placeholders_are_filled_in() {
    let hour = partition(Grain::Hourly, "Europe/Berlin", "2025-10-26T02+0100");
    for (template, partition, expected) in [
        ("reports/{date:%Y/%m/%d}/{param.REGION}.csv", &day(), "reports/2025/03/24/EU.csv"),
        ("dt={date}/", &day(), "dt=2025-03-24/"),
        ("{partition}.csv", &day(), "2025-03-24.csv"),
        ("{partition}.csv", &named("a b"), "a b.csv"),
        ("s3://bucket/{date:%G-W%V}/x", &day(), "s3://bucket/2025-W13/x"),
        ("{date}", &hour, "2025-10-26T02+0100"),
        ("{date:%H%z}", &hour, "02+0100"),
        ("{date}", &partition(Grain::Hourly, "UTC", "2025-03-24T05"), "2025-03-24T05"),
        ("{date:%m}", &partition(Grain::Monthly, "America/New_York", "2025-07"), "07"),
        ("{{{date}}}", &day(), "{2025-03-24}"),
        ("plain", &Partition::whole(), "plain"),
        ("../up/{date}", &day(), "../up/2025-03-24"),
        ("", &day(), ""),
    ] {
        assert_eq!(render(template, partition), expected);
    }
}

#[test]
fn malformed_templates_are_refused_with_the_remedy() {
    for (text, message, hint) in [
        ("{dat}", "`{dat}` is not a placeholder", "did you mean `{date}`?"),
        ("{partitoin}", "`{partitoin}`", "did you mean `{partition}`?"),
        ("{REGION}", "`{REGION}`", "placeholders are"),
        ("{}", "`{}`", "placeholders are"),
        ("{param.}", "`{param.}`", "`{param.NAME}`"),
        ("{param.A-B}", "`{param.A-B}`", "`{param.NAME}`"),
        ("{params.A}", "`{params.A}`", "`{param.NAME}`"),
        ("{dates:%Y}", "`{dates:%Y}`", "did you mean `{date}`?"),
        ("{date", "`{` has no partner", "`{{`"),
        ("date}", "`}` has no partner", "`}}`"),
        ("{date:%!}", "`%!` is not a date format", "{date:%Y/%m/%d}"),
        ("{date:%}", "`%` is not a date format", "{date:%Y/%m/%d}"),
        ("{date:}", "prints nothing", "{date:%Y/%m/%d}"),
        ("{date:%n}", "control character", "{date:%Y/%m/%d}"),
    ] {
        let error = Template::parse(text).expect_err(text);
        assert!(error.message.contains(message), "{error}");
        assert!(error.hint.as_deref().unwrap().contains(hint), "{text}: {:?}", error.hint);
    }
    assert!(Template::parse("a\0b").is_err());
}

#[test]
fn a_value_cannot_change_the_shape_of_the_path() {
    let template = Template::parse("out/{param.REGION}/x").unwrap();
    for value in ["a/b", "/etc", "..", "../x", "a..b", ".", "", "a\0", "a\n"] {
        let error = template.render(&day(), &params(&[("REGION", value)])).expect_err(value);
        assert!(error.message.contains("out/{param.REGION}/x"), "{error}");
    }
    let pair = Template::parse("out/{param.A}{param.B}/x").unwrap();
    assert!(pair.render(&day(), &params(&[("A", "."), ("B", ".")])).is_err());
    assert_eq!(pair.render(&day(), &params(&[("A", "."), ("B", "b")])).unwrap(), "out/.b/x");
    let hidden = Template::parse("out/.{param.A}/x").unwrap();
    assert!(hidden.render(&day(), &params(&[("A", ".")])).is_err());
    assert!(Template::parse("{partition}").unwrap().render(&named("a/b"), &params(&[])).is_err());
}

#[test]
fn a_missing_value_is_named() {
    let error = Template::parse("{param.REGON}").unwrap().render(&day(), &params(&[("REGION", "EU")])).unwrap_err();
    assert!(error.message.contains("`REGON` is not given"), "{error}");
    assert_eq!(error.hint.unwrap(), "did you mean `{param.REGION}`?");
    let date = Template::parse("{date}").unwrap();
    assert!(date.render(&named("EU"), &params(&[])).unwrap_err().message.contains("not a date"));
    let whole = Template::parse("{partition}").unwrap();
    assert!(whole.render(&Partition::whole(), &params(&[])).unwrap_err().message.contains("no partitions"));
}

#[test]
fn dependence_on_the_partition_is_seen() {
    for (text, depends) in [
        ("a/{param.X}", false),
        ("a/{date}", true),
        ("a/{partition}", true),
        ("{date:%Y}", true),
        ("{date:fixed}", false),
        ("{date:100%%}", false),
        ("{{date}}", false),
    ] {
        assert_eq!(Template::parse(text).unwrap().depends_on_partition(), depends, "{text}");
    }
    let template = Template::parse("{param.B}/{param.A}/{param.B}").unwrap();
    assert_eq!(template.params().into_iter().collect::<Vec<_>>(), ["A", "B"]);
}

#[test]
fn templates_that_mix_up_keys_are_told_from_those_that_do_not() {
    use Grain::{Daily, Hourly, Monthly, Weekly, Yearly};
    for (grain, zone, text, expected) in [
        (Daily, "UTC", "{date}", true),
        (Daily, "UTC", "{date:%Y/%m/%d}", true),
        (Daily, "UTC", "{date:%Y}/{param.X}/{date:%j}", true),
        (Daily, "UTC", "{date:%Y-%-m-%-d}", true),
        (Daily, "UTC", "{date:%Y%-m%-d}", false),
        (Daily, "UTC", "{date:%d.%b.%Y}", true),
        (Daily, "UTC", "{date:%y%m%d}", false),
        (Daily, "UTC", "{date:%D}", false),
        (Daily, "UTC", "{date:%y%j%a}", false),
        (Daily, "UTC", "{date:%g-W%V-%u}", false),
        (Daily, "UTC", "{date:%C%y%m%d}", true),
        (Daily, "UTC", "{date:%Y}/{date:%y%m%d}", true),
        (Hourly, "UTC", "{date:%y%m%d%H}", false),
        (Hourly, "Europe/Berlin", "{date:%y%m%d%H%z}", false),
        (Weekly, "UTC", "{date:%g-W%V}", false),
        (Monthly, "Europe/Berlin", "{date:%y-%m}", false),
        (Daily, "UTC", "{date:%G-W%V-%u}", true),
        (Daily, "UTC", "{date:%m-%d}", false),
        (Daily, "UTC", "{date:%Y-%m}", false),
        (Daily, "UTC", "{date:%Y-%V-%u}", false),
        (Daily, "UTC", "{date:%G-%m-%d}", false),
        (Daily, "UTC", "{date:%A}", false),
        (Daily, "UTC", "latest.csv", false),
        (Daily, "UTC", "{date:%Y}/{date:%m}/{date}", true),
        (Daily, "America/Sao_Paulo", "{date:%F}", true),
        (Daily, "UTC", "{date:%s}", true),
        (Hourly, "UTC", "{date:%Y%m%d%H}", true),
        (Hourly, "UTC", "{date:%F}", false),
        (Hourly, "UTC", "{date:%F-%I}", false),
        (Hourly, "UTC", "{date:%F-%I%P}", true),
        (Hourly, "UTC", "{date:%m%d%H}", false),
        (Hourly, "UTC", "{date:%G-%m-%dT%H}", false),
        (Hourly, "Europe/Berlin", "{date:%FT%H}", false),
        (Hourly, "Europe/Berlin", "{date:%FT%H%z}", true),
        (Hourly, "Europe/Berlin", "{date:%FT%H%z%z}", true),
        (Hourly, "Europe/Berlin", "{date}", true),
        (Hourly, "UTC", "{date:%FT%H%z}", true),
        (Daily, "Europe/Berlin", "{date:%F%z}", true),
        (Hourly, "Australia/Lord_Howe", "{date:%FT%H}", false),
        (Hourly, "Australia/Lord_Howe", "{date:%FT%H%M}", true),
        (Hourly, "Asia/Kathmandu", "{date:%FT%H}", true),
        (Weekly, "UTC", "{date:%G-W%V}", true),
        (Weekly, "UTC", "{date:%Y-W%V}", false),
        (Weekly, "UTC", "{date:%Y-W%W}", true),
        (Weekly, "UTC", "{date:%V}", false),
        (Monthly, "UTC", "{date:%Y-%m}", true),
        (Monthly, "UTC", "{date:%b-%Y}", true),
        (Monthly, "UTC", "{date:%Y-Q%q}", false),
        (Yearly, "UTC", "{date:%Y}", true),
        (Yearly, "UTC", "{date:%C}", false),
        (Yearly, "UTC", "{partition}", true),
    ] {
        let calendar = Calendar::new(grain, zone).unwrap();
        assert_eq!(Template::parse(text).unwrap().distinguishes(&calendar), expected, "{grain} {zone} {text}");
    }
}

#[test]
fn a_template_is_checked_against_the_scheme() {
    let dates = PartitionScheme::Dates(Calendar::utc(Grain::Daily));
    let values = PartitionScheme::values(vec!["EU".to_owned(), "US".to_owned()]).unwrap();
    for (scheme, text) in [
        (&PartitionScheme::None, "latest.csv"),
        (&dates, "{date}.csv"),
        (&dates, "{partition}.csv"),
        (&values, "{partition}.csv"),
        (&PartitionScheme::Free, "{partition}/x"),
    ] {
        Template::parse(text).unwrap().check(scheme).unwrap();
    }
    for (scheme, text, message, hint) in [
        (&dates, "latest.csv", "published to the same place", Some("add `{date}` to the location")),
        (
            &dates,
            "{date:%m-%d}.csv",
            "published to the same place",
            Some("add `{date}` to the location: `{date:%m-%d}` is the same for both"),
        ),
        (&values, "latest.csv", "published to the same place", Some("add `{partition}` to the location")),
        (&PartitionScheme::Free, "{date}", "`{date}` has no value", None),
        (&PartitionScheme::None, "{date:%Y}", "`{date}` has no value: the task has no partitions", None),
        (&PartitionScheme::None, "{partition}", "`{partition}` has no value", None),
    ] {
        let error = Template::parse(text).unwrap().check(scheme).expect_err(text);
        assert!(error.message.contains(message), "{error}");
        assert_eq!(error.hint.as_deref(), hint);
    }
}

proptest! {
    #[test]
    fn no_template_makes_the_parser_panic(text in "[{}:%.dateprmYX/\u{e9}]{0,16}|.{0,12}") {
        if let Ok(template) = Template::parse(&text) {
            let _rendered = template.render(&day(), &params(&[]));
            prop_assert_eq!(template.to_string(), text);
        }
    }

    #[test]
    fn a_value_stays_within_its_component(value in ".{0,8}") {
        let template = Template::parse("a/{param.X}/b").unwrap();
        if let Ok(path) = template.render(&day(), &params(&[("X", &value)])) {
            let parts: Vec<_> = std::path::Path::new(&path).components().collect();
            prop_assert_eq!(parts.len(), 3);
            prop_assert!(parts.iter().all(|part| matches!(part, std::path::Component::Normal(_))));
        }
    }
}
