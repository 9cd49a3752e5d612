//! gzip, zstd, bzip2, xz, zip and tar, and one in another.

use crate::support::{Outputs, assert_told, compare_bytes, flights, only, shuffle, told, with_rows};
use flate2::{Compression, GzBuilder};
use refrain_compare::{FindingKind, Format, Options, Verdict};
use std::io::{Cursor, Write};

fn gzip(content: impl AsRef<[u8]>, time: u32, name: Option<&str>, level: u32) -> Vec<u8> {
    let mut builder = GzBuilder::new().mtime(time);
    if let Some(name) = name {
        builder = builder.filename(name);
    }
    let mut writer = builder.write(vec![], Compression::new(level));
    writer.write_all(content.as_ref()).unwrap();
    writer.finish().unwrap()
}

/// A tar archive: name, content, time, user.
fn tar(members: &[(&str, &[u8], u64, u64)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(vec![]);
    for (name, content, time, user) in members {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(*time);
        header.set_uid(*user);
        header.set_gid(0);
        builder.append_data(&mut header, name, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn zip(members: &[(&str, &[u8])], hour: u8) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(vec![]));
    let time = zip::DateTime::from_date_and_time(2025, 3, 24, hour, 0, 0).unwrap();
    for (name, content) in members {
        let options = zip::write::SimpleFileOptions::default().last_modified_time(time);
        writer.start_file(*name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn det_01_the_time_in_a_gzip_header() {
    let comparison = compare_bytes("a.csv.gz", gzip(flights(), 1, None, 6), gzip(flights(), 2, None, 6));
    assert_told(
        &comparison,
        Verdict::ContentEqual,
        &[(FindingKind::GzipTime, "the time in the gzip header differs: 1 and 2")],
    );
    assert_eq!(comparison.files[0].summary(), "bytes differ, content equal (gzip header time)");
}

#[test]
fn det_01_rows_equal_under_a_gzip_header_time() {
    let shuffled = with_rows(&flights(), |rows| shuffle(rows));
    let comparison = compare_bytes("a.csv.gz", gzip(flights(), 1, None, 6), gzip(shuffled, 2, None, 6));
    assert_eq!(comparison.files[0].formats, [Format::Gzip, Format::Csv]);
    assert_eq!(comparison.files[0].summary(), "bytes differ, rows equal (order, gzip header time)");
}

#[test]
fn det_02_a_name_in_the_gzip_header() {
    let name = |attempt| Some(if attempt == 1 { "x.attempt17" } else { "x.attempt18" });
    let comparison = compare_bytes("x.gz", gzip("a\n", 0, name(1), 6), gzip("a\n", 0, name(2), 6));
    let text = "the name in the gzip header differs: `x.attempt17` and `x.attempt18`";
    assert_told(&comparison, Verdict::ContentEqual, &[(FindingKind::GzipName, text)]);
}

#[test]
fn det_01_another_level_of_compression() {
    let comparison = compare_bytes("a.csv.gz", gzip(flights(), 0, None, 1), gzip(flights(), 0, None, 9));
    assert_eq!((only(&comparison).kind, comparison.verdict), (FindingKind::Compression, Verdict::ContentEqual));
    let zstd = |level| zstd::encode_all(flights().as_bytes(), level).unwrap();
    let comparison = compare_bytes("a.csv.zst", zstd(1), zstd(9));
    assert_eq!((only(&comparison).kind, comparison.verdict), (FindingKind::Compression, Verdict::ContentEqual));
    let bzip2 = |level| {
        let mut writer = bzip2::write::BzEncoder::new(vec![], bzip2::Compression::new(level));
        writer.write_all(flights().as_bytes()).unwrap();
        writer.finish().unwrap()
    };
    let comparison = compare_bytes("a.csv.bz2", bzip2(1), bzip2(9));
    assert_eq!((only(&comparison).kind, comparison.verdict), (FindingKind::Compression, Verdict::ContentEqual));
}

#[test]
fn packed_on_one_side_only() {
    let comparison = compare_bytes("a.csv", flights(), gzip(flights(), 0, None, 6));
    assert_eq!((only(&comparison).kind, comparison.verdict), (FindingKind::FileType, Verdict::ContentEqual));
}

#[test]
fn det_01_tar_members_differ_in_time_owner_and_order() {
    let flights = flights();
    let (a, b) = (flights.as_bytes(), b"x".as_slice());
    let comparison =
        compare_bytes("a.tar", tar(&[("a.csv", a, 1, 0), ("b", b, 1, 0)]), tar(&[("b", b, 2, 7), ("a.csv", a, 1, 0)]));
    let expected = [
        (FindingKind::MemberTime, "the tar header's time differs in 1 of 2 members"),
        (FindingKind::MemberOwner, "the tar header's owner differs in 1 of 2 members"),
        (FindingKind::MemberOrder, "the same members in another order"),
    ];
    assert_told(&comparison, Verdict::ContentEqual, &expected);
}

#[test]
fn det_01_zip_times() {
    let comparison = compare_bytes("a.zip", zip(&[("a", b"x")], 1), zip(&[("a", b"x")], 2));
    assert_eq!((only(&comparison).kind, comparison.verdict), (FindingKind::MemberTime, Verdict::ContentEqual));
}

#[test]
fn rows_within_archives_within_streams() {
    let shuffled = with_rows(&flights(), |rows| shuffle(rows));
    let packed = |csv: &str, time| gzip(tar(&[("day/a.csv", csv.as_bytes(), 1, 0)]), time, None, 6);
    let comparison = compare_bytes("a.tar.gz", packed(&flights(), 1), packed(&shuffled, 1));
    let finding = only(&comparison);
    assert_eq!(finding.text, "member `day/a.csv`: same rows in another order");
    assert_eq!(finding.place.as_deref(), Some("day/a.csv"));
    assert_eq!(comparison.files[0].formats, [Format::Gzip, Format::Tar]);
    let inner = |csv: &str| gzip(csv, 1, None, 6);
    let comparison =
        compare_bytes("a.zip", zip(&[("a.csv.gz", &inner(&flights()))], 1), zip(&[("a.csv.gz", &inner(&shuffled))], 1));
    assert_eq!(only(&comparison).text, "member `a.csv.gz`: same rows in another order");
}

#[test]
fn members_on_one_side_and_members_with_other_names() {
    let uuids = ["part-6fa459ea-ee8a-4ca4-894e-db77e160355e.csv", "part-16fd2706-8baf-433b-82eb-8c7fada847da.csv"];
    let comparison =
        compare_bytes("a.zip", zip(&[(uuids[0], b"a,b\n")], 1), zip(&[(uuids[1], b"a,b\n"), ("more", b"")], 1));
    let kinds: Vec<_> = told(&comparison).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [FindingKind::OnlyRight, FindingKind::FileName]);
}

#[test]
fn a_bomb_is_read_as_a_stream() {
    let bomb = |last: u8| {
        let mut writer = GzBuilder::new().write(vec![], Compression::best());
        for _ in 0..64 {
            writer.write_all(&vec![0; 1 << 20]).unwrap();
        }
        writer.write_all(&[last]).unwrap();
        writer.finish().unwrap()
    };
    let outputs = Outputs::pair("a.gz", bomb(1), bomb(2));
    let comparison = outputs.compare_with(&Options { unpack_bytes: 1 << 20, ..Options::default() });
    let expected = [
        (FindingKind::NotUnpacked, "it unpacks to more than 1048576 bytes: compared as a stream"),
        (FindingKind::Bytes, "1 of 67108865 bytes differ, the first at offset 67108864"),
    ];
    assert_told(&comparison, Verdict::ContentDiffers, &expected);
}

#[test]
fn many_layers_end() {
    let nested = |content: &str| (0..10).fold(content.as_bytes().to_vec(), |inner, _| gzip(inner, 0, None, 6));
    let comparison = compare_bytes("a", nested("a"), nested("b"));
    assert_eq!(told(&comparison)[0].0, FindingKind::NotUnpacked);
}

/// What `lzma.compress` of Python made of `a,b` and one row, with two kinds of checksums and then of another row.
const XZ: [&str; 3] = [
    "fd377a585a0000016922de360200210116000000742fe5a3010007612c620a312c320a007b07970a00011c0844602ac89042990d010000000001595a",
    "fd377a585a000004e6d6b4460200210116000000742fe5a3010007612c620a312c320a00be9cbd49b5122afe00012008bb19d9bb1fb6f37d010000000004595a",
    "fd377a585a000004e6d6b4460200210116000000742fe5a3010007612c620a312c330a00b36d6d15276bc3aa00012008bb19d9bb1fb6f37d010000000004595a",
];

#[test]
fn xz_is_read() {
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    let [crc32, crc64, other] = XZ.map(bytes);
    let comparison = compare_bytes("a.csv.xz", &crc32, crc64);
    assert_eq!((only(&comparison).kind, comparison.verdict), (FindingKind::Compression, Verdict::ContentEqual));
    let comparison = compare_bytes("a.csv.xz", crc32, other);
    assert_eq!((only(&comparison).column.as_deref(), comparison.verdict), (Some("b"), Verdict::ContentDiffers));
}
