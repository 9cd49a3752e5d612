//! A task whose outputs name the attempt that wrote them, and what must hold once all is over.

#![allow(dead_code, reason = "each test program uses its part")]

use refrain_testkit::program::{Home, Output, Refrain};
use refrain_testkit::reader::{Observation, Reader, observe};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The program under test.
pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_refrain");

/// The input of the tasks, in homes that have it.
const SOURCE: &str = "source.txt";

/// Writes the attempt's id into every part of every output, so that a mix or a part of an output shows.
const SCRIPT: &str = r#"
[ -z "$REFRAIN_IN_SOURCE" ] || [ "$(cat "$REFRAIN_IN_SOURCE")" = input ] || exit 3
for out in "$REFRAIN_OUT_D" "$REFRAIN_OUT_F"; do
  if [ -d "$out" ]; then
    mkdir "$out/sub"
    for part in first sub/second third; do echo "$REFRAIN_ATTEMPT" > "$out/$part"; done
  elif [ -n "$out" ]; then
    { echo "begin $REFRAIN_ATTEMPT"; echo "end $REFRAIN_ATTEMPT"; } > "$out"
  fi
done
"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
}

/// What is published, and over what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) outputs: &'static [Kind],
    pub(crate) replacing: bool,
}

pub(crate) const FILE_NEW: Shape = Shape { outputs: &[Kind::File], replacing: false };
pub(crate) const FILE_REPLACED: Shape = Shape { outputs: &[Kind::File], replacing: true };
pub(crate) const DIRECTORY_NEW: Shape = Shape { outputs: &[Kind::Directory], replacing: false };
pub(crate) const DIRECTORY_REPLACED: Shape = Shape { outputs: &[Kind::Directory], replacing: true };
pub(crate) const BOTH_NEW: Shape = Shape { outputs: &[Kind::Directory, Kind::File], replacing: false };
pub(crate) const BOTH_REPLACED: Shape = Shape { outputs: &[Kind::Directory, Kind::File], replacing: true };

/// From now on the tasks of the home pin an input.
pub(crate) fn with_input(home: Home) -> Home {
    home.write(SOURCE, "input\n");
    home
}

/// One key of a home, which is published once before the test if the shape replaces.
pub(crate) struct Case<'h> {
    pub(crate) home: &'h Home,
    pub(crate) shape: Shape,
    pub(crate) task: String,
    /// The attempt of generation 1, if that stands before the test.
    pub(crate) first: Option<String>,
}

impl<'h> Case<'h> {
    /// A task of this name, publishing below `out/` of the home.
    pub(crate) fn new(home: &'h Home, shape: Shape, task: impl Into<String>) -> Self {
        let mut case = Self { home, shape, task: task.into(), first: None };
        if shape.replacing {
            home.run(case.plain()).success();
            case.first = case.shown();
        }
        case
    }

    /// A task that is in the home already; whatever it published before is not compared.
    pub(crate) fn standing(home: &'h Home, shape: Shape, task: impl Into<String>) -> Self {
        let mut case = Self { home, shape, task: task.into(), first: None };
        if shape.replacing {
            let records = Records::of(home);
            case.first = records.published(&case.task, 1).pop();
        }
        case
    }

    /// The arguments of an ordinary call, as a scheduler would repeat it.
    pub(crate) fn plain(&self) -> Vec<String> {
        let mut args = vec!["run".to_owned(), self.task.clone()];
        if self.home.exists(SOURCE) {
            args.extend(["--in".to_owned(), format!("source={SOURCE}")]);
        }
        for kind in self.shape.outputs {
            args.push("--out".to_owned());
            args.push(match kind {
                Kind::File => format!("f=out/{}.txt", self.task),
                Kind::Directory => format!("d=out/{}/", self.task),
            });
        }
        args.extend(["--", "sh", "-c", SCRIPT].map(str::to_owned));
        args
    }

    /// The arguments of the call that publishes the generation under test.
    pub(crate) fn publishing(&self) -> Vec<String> {
        let mut args = self.plain();
        if self.shape.replacing {
            args.insert(2, "--rerun".to_owned());
        }
        args
    }

    /// The program, which will be killed or frozen at this point.
    pub(crate) fn crashing(&self, at: &str) -> Refrain {
        self.home.refrain().env("REFRAIN_CRASH_AT", at)
    }

    pub(crate) fn targets(&self) -> Vec<PathBuf> {
        let target = |kind: &Kind| match kind {
            Kind::File => self.home.join(format!("out/{}.txt", self.task)),
            Kind::Directory => self.home.join(format!("out/{}", self.task)),
        };
        self.shape.outputs.iter().map(target).collect()
    }

    /// The attempt that all targets show; nothing if they show nothing.
    pub(crate) fn shown(&self) -> Option<String> {
        let shown: BTreeSet<Option<String>> = self.targets().iter().map(|target| attempt_at(target)).collect();
        assert_eq!(shown.len(), 1, "{}: the outputs are of several attempts: {shown:?}", self.task);
        shown.into_iter().next().flatten()
    }

    /// What the log, `status` and the state directory say of the home.
    pub(crate) fn records(&self) -> Records {
        Records::of(self.home)
    }

    /// Looks at the targets at full speed. A target that exists must never be missing again.
    pub(crate) fn watch(&self) -> Vec<Watch> {
        self.targets().into_iter().map(Watch::start).collect()
    }

    /// One ordinary call, which must be enough.
    pub(crate) fn repeat(&self, context: &str) {
        let watch = self.watch();
        let output = self.home.run(self.plain());
        assert_eq!(output.code, Some(0), "{context}: the repeated call failed\n{output}");
        end_all(watch, context);
    }

    /// One ordinary call, then the end that must be.
    pub(crate) fn recovers(&self, context: &str) {
        self.repeat(context);
        check_ends(self.home, &[(self, context.to_owned())]);
    }

    /// The replaced publication is kept, whole.
    fn check_kept(&self, first: &str, context: &str) {
        let versions = self.home.join(".refrain/versions");
        let kept = names(&versions).into_iter().map(|slot| versions.join(slot).join(format!("1-{first}")));
        let kept: Vec<_> = kept.filter(|version| version.is_dir()).collect();
        assert_eq!(kept.len(), self.shape.outputs.len(), "{context}: version 1 is kept");
        for version in kept {
            let base = names(&version).pop().unwrap_or_default();
            assert_eq!(attempt_at(&version.join(base)).as_deref(), Some(first), "{context}: version 1");
        }
    }
}

/// What the log and `status` say of all keys of a home.
pub(crate) struct Records {
    pub(crate) log: Vec<Value>,
    status: Vec<Value>,
}

impl Records {
    pub(crate) fn of(home: &Home) -> Self {
        let log = home.run(["log", "--json", "-n", "100000"]).success();
        let log = log.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of the log")).collect();
        let status = home.run(["status", "--json"]).success();
        Self { log, status: serde_json::from_str(&status.stdout).expect("the status") }
    }

    /// The attempts of a task, newest first.
    pub(crate) fn attempts(&self, task: &str) -> Vec<&Value> {
        self.log.iter().filter(|entry| entry["key"]["task"] == task).collect()
    }

    /// The attempts of a task that the log calls published in this generation.
    pub(crate) fn published(&self, task: &str, generation: u64) -> Vec<String> {
        let mut attempts = self.attempts(task);
        attempts.retain(|entry| entry["generation"] == generation && entry["ending"]["outcome"] == "published");
        attempts.into_iter().map(|entry| text(&entry["attempt"])).collect()
    }

    /// The state and the generation of a task's only key.
    pub(crate) fn state(&self, task: &str) -> (String, u64) {
        let found = self.status.iter().find(|entry| entry["task"] == task);
        found.map(|it| (text(&it["state"]), it["generation"].as_u64().unwrap_or_default())).unwrap_or_default()
    }
}

/// One publication of one attempt for each case, told once; and after `gc` nothing is left over.
pub(crate) fn check_ends(home: &Home, cases: &[(&Case<'_>, String)]) {
    let gc = home.run(["gc"]).success();
    let records = Records::of(home);
    let mut standing = BTreeSet::new();
    for (case, context) in cases {
        let context = format!("{context}, {}", case.task);
        let Some(shown) = case.shown() else { panic!("{context}: nothing is published") };
        let (state, generation) = records.state(&case.task);
        let newest = &records.attempts(&case.task)[0]["ending"]["outcome"];
        // A rerun that failed before it opened a run leaves the publication that stands; its failure is shown.
        let failed_rerun = case.first.as_ref() == Some(&shown) && newest == "error" && state == "failed";
        assert!(state == "published" || failed_rerun, "{context}: the state is {state}");
        assert_eq!(
            records.published(&case.task, generation),
            *std::slice::from_ref(&shown),
            "{context}: entries of the publication"
        );
        for entry in records.attempts(&case.task) {
            assert!(!entry["ending"].is_null(), "{context}: an attempt was not settled: {entry:#}");
        }
        match (&case.first, generation) {
            (None, 1) => {}
            (Some(first), 1) => assert_eq!(&shown, first, "{context}"),
            (Some(first), 2) => {
                assert_eq!(
                    records.published(&case.task, 1),
                    *std::slice::from_ref(first),
                    "{context}: the former publication"
                );
                case.check_kept(first, &context);
            }
            _ => panic!("{context}: generation {generation}"),
        }
        standing.insert(shown);
    }
    let mut left = names(&home.join(".refrain/pins"));
    for name in beside_heads(&home.join(".refrain/slots")) {
        let attempt = name.split('.').next().unwrap_or_default();
        // The manifest of what stands serves to notice a change by hand.
        let needed = has_ending(&name, "manifest") && standing.contains(attempt);
        if !needed {
            let task = records.log.iter().find(|entry| entry["attempt"] == attempt).map(|it| text(&it["key"]["task"]));
            let context = cases.iter().find(|(case, _)| Some(&case.task) == task.as_ref()).map(|(_, context)| context);
            left.push(format!("{name} of {task:?}, killed at {context:?}"));
        }
    }
    assert!(left.is_empty(), "left over: {left:#?}\n{gc}");
}

/// A reader of one target.
pub(crate) struct Watch {
    reader: Reader,
    existed: bool,
    target: PathBuf,
}

impl Watch {
    pub(crate) fn start(target: PathBuf) -> Self {
        let existed = fs::symlink_metadata(&target).is_ok();
        Self { reader: Reader::start(&target), existed, target }
    }

    /// Whatever was seen was whole.
    pub(crate) fn end(self, context: &str) {
        let seen = self.reader.stop();
        for observation in &seen.distinct {
            let shown = whole(observation).unwrap_or_else(|why| panic!("{context}: {}: {why}", self.target.display()));
            assert!(shown.is_some() || !self.existed, "{context}: {} was missing", self.target.display());
        }
    }
}

/// Ends all readers of a case.
pub(crate) fn end_all(watches: Vec<Watch>, context: &str) {
    for watch in watches {
        watch.end(context);
    }
}

/// The attempt that wrote what stands at a path, all of it.
pub(crate) fn attempt_at(path: &Path) -> Option<String> {
    whole(&observe(path)).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// The attempt that wrote it; nothing for nothing; an error for a part or a mix.
pub(crate) fn whole(seen: &Observation) -> Result<Option<String>, String> {
    let broken = || Err(format!("a reader saw {seen:?}"));
    match seen {
        Observation::Missing => Ok(None),
        Observation::File(content) => {
            let content = String::from_utf8_lossy(content);
            let attempt = content.strip_prefix("begin ").and_then(|rest| rest.lines().next()).unwrap_or_default();
            if attempt.is_empty() || content != format!("begin {attempt}\nend {attempt}\n") {
                return broken();
            }
            Ok(Some(attempt.to_owned()))
        }
        Observation::Directory(files) => {
            let names: Vec<_> = files.keys().map(|path| path.to_string_lossy().into_owned()).collect();
            let contents: BTreeSet<_> = files.values().collect();
            if names != ["first", "sub/second", "third"] || contents.len() != 1 {
                return broken();
            }
            let attempt = String::from_utf8_lossy(contents.first().expect("one content")).trim().to_owned();
            if attempt.is_empty() { broken() } else { Ok(Some(attempt)) }
        }
        Observation::Torn(_) | Observation::PowerOff => broken(),
    }
}

/// The names in a directory; none if there is no directory.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return vec![] };
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The names of a volume's `slots/` that are neither of a head nor of a lock: staging and manifests.
pub(crate) fn beside_heads(slots: &Path) -> Vec<String> {
    names(slots).into_iter().filter(|name| !has_ending(name, "head") && !has_ending(name, "lock")).collect()
}

/// Whether a name ends with a dot and this.
pub(crate) fn has_ending(name: &str, ending: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == ending)
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The sentence at the end of an error tells where the failure fell.
pub(crate) fn sentence(output: &Output) -> &'static str {
    const SENTENCES: [&str; 3] = ["Nothing was published.", "The output is published.", "It is unknown whether"];
    let said: Vec<_> = SENTENCES.into_iter().filter(|sentence| output.stderr.contains(sentence)).collect();
    assert_eq!(said.len(), 1, "one of the three sentences\n{output}");
    said[0]
}
