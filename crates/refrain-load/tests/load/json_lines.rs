//! JSON Lines become rows of COPY's text format.

use super::{file, read, refusal};
use refrain_load::{Options, Shape};

#[test]
fn keys_may_be_missing_and_in_any_order() {
    let content = "\u{feff}{\"a\":1,\"b\":\"x\"}\r\n\n {\"b\": \"y\", \"a\": null} \n{}\n{\"c\":true,\"\\u0061\":2}";
    let (_directory, path) = file("a.jsonl", content);
    let (source, text) = read(&path, &Options::default()).unwrap();
    assert_eq!(source.columns(), ["a", "b", "c"]);
    assert_eq!(source.rows(), Some(4));
    assert_eq!(text, "1\tx\t\\N\n\\N\ty\t\\N\n\\N\t\\N\t\\N\n2\t\\N\ttrue\n");
    let place = source.explain(4, Some("a"));
    assert_eq!(place.to_string(), "line 5, column `a`: `2`");
}

#[test]
fn numbers_keep_every_digit_and_texts_every_character() {
    let values = ["1e400", "0.1000", "12345678901234567890", "-0", "1E+2"];
    for value in values {
        let (_directory, path) = file("a.jsonl", format!("{{\"a\": {value} }}"));
        assert_eq!(read(&path, &Options::default()).unwrap().1, format!("{value}\n"));
    }
    let (_directory, path) = file("a.jsonl", r#"{"a":"t\tn\nr\rb\\q\"ü\ud83d\ude00","b":"\\N","c":"\\."}"#);
    assert_eq!(read(&path, &Options::default()).unwrap().1, "t\\tn\\nr\\rb\\\\q\"ü😀\t\\\\N\t\\\\.\n");
}

#[test]
fn nested_values_are_what_the_target_takes() {
    let content = r#"{"v":[1,"a\"b",null,[true]]}"#;
    let spelled = |shape| {
        let (_directory, path) = file("a.jsonl", content);
        let options = Options { shapes: [("v".to_owned(), shape)].into(), ..Options::default() };
        read(&path, &options).unwrap().1
    };
    assert_eq!(spelled(Shape::Any), "[1,\"a\\\\\"b\",null,[true]]\n");
    assert_eq!(spelled(Shape::Json), "[1,\"a\\\\\"b\",null,[true]]\n");
    assert_eq!(spelled(Shape::Array), "{1,\"a\\\\\"b\",NULL,{true}}\n");
    let (_directory, path) = file("a.jsonl", r#"{"v":"text","w":{"x":1.50}}"#);
    let options = Options { shapes: [("v".to_owned(), Shape::Json)].into(), ..Options::default() };
    assert_eq!(read(&path, &options).unwrap().1, "\"text\"\t{\"x\":1.50}\n");
}

#[test]
fn no_objects_are_no_rows() {
    for content in ["", "\n", " \n\n"] {
        let (_directory, path) = file("a.jsonl", content);
        let (source, text) = read(&path, &Options::default()).unwrap();
        assert_eq!((source.columns().len(), source.rows(), &*text), (0, Some(0), ""));
    }
}

#[test]
fn what_is_no_row_is_refused_by_line() {
    for (content, expected) in [
        ("{\"a\":1}\n[1]\n", "line 2 of `a.jsonl` is no row: it is an array"),
        ("1\n", "line 1 of `a.jsonl` is no row: it is no object"),
        ("{\"a\":1}\n\n{\"a\":\n", "line 3 of `a.jsonl` is no row: EOF while parsing a value at column 5"),
        ("{\"a\":1} {\"a\":2}\n", "line 1 of `a.jsonl` is no row: trailing characters at column 9"),
        ("{\"a\":1,\"a\":2}\n", "line 1 of `a.jsonl` is no row: it has the key `a` twice"),
        ("{\"\":1}\n", "line 1 of `a.jsonl` is no row: it has a key without a name"),
        (
            "{\"a\":1}\n{\"a\":\"x\\u0000\"}\n",
            "line 2 of `a.jsonl` is no row: the value of `a` has a character \\u0000, which PostgreSQL cannot hold",
        ),
        (
            "{\"a\":{\"b\":\"x\\u0000\"}}\n",
            "line 1 of `a.jsonl` is no row: the value of `a` has a character \\u0000, which PostgreSQL cannot hold",
        ),
    ] {
        let told = refusal("a.jsonl", content);
        assert!(told.starts_with(expected), "{told}");
    }
    let bytes = refusal("a.jsonl", b"{\"a\":1}\n{\"a\":\"\xff\"}\n");
    assert_eq!(bytes, "line 2 of `a.jsonl` is no row: it is not UTF-8: it has the byte 0xff");
    let wide = (0..1601).fold(String::new(), |lines, key| lines + &format!("{{\"k{key}\":1}}\n"));
    assert!(
        refusal("a.jsonl", wide).starts_with("line 1601 of `a.jsonl` is no row: with it the objects have more keys")
    );
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(16 << 20));
    assert_eq!(refusal("a.jsonl", long), "line 1 of `a.jsonl` is no row: it is longer than 16 MiB");
}
