//! `refrain run`: the task from refrain.toml or from the command line, run inside the boundary.

use crate::args::{GrainArg, RepeatArgs, RunArgs};
use crate::context::Context;
use crate::output::{self, Loudness};
use crate::signals;
use refrain::core::{Calendar, Grain, PartitionScheme, parse_duration, without_password};
use refrain::task::{CommandLine, InputSpec, OutputSpec};
use refrain::{Conclusion, Error, NextTry, Options, Repeat, Report, Result, Stdout, Task};
use std::path::Path;
use std::time::Duration;

/// Runs; returns the exit code.
pub(crate) fn run(context: &Context, args: &RunArgs) -> u8 {
    let file = args.report.as_deref().filter(|place| *place != "-").map(|place| context.directory.join(place));
    let mut may_report = true;
    let conclusion = attempt(context, args, file.as_deref(), &mut may_report).unwrap_or_else(|error| {
        let named = args.partition.date.as_deref().or(args.partition.partition.as_deref()).unwrap_or_default();
        let report = Report::of_error(&args.task, named, context.now(), &error);
        Conclusion { report, notes: Vec::new(), error: Some(error) }
    });
    output::conclusion(&conclusion, context.loudness);
    if let Some(place) = args.report.as_deref().filter(|_| may_report)
        && let Err(error) = conclusion.report.write(place)
        && !(place == "-" && output::is_broken_pipe(&error))
    {
        output::failure(&error, conclusion.report.window);
    }
    conclusion.report.exit_code
}

/// Says, too, whether a report may be written to the file that the call names.
fn attempt(context: &Context, args: &RunArgs, report: Option<&Path>, may_report: &mut bool) -> Result<Conclusion> {
    let boundary = context.boundary().inspect_err(|_| *may_report = report.is_none_or(refrain::may_replace))?;
    let mut demand_apart = |demand: &dyn Fn(&Path) -> Result<()>| {
        let apart = report.map_or(Ok(()), demand);
        *may_report = apart.is_ok();
        apart.map_err(|error| error.within("`--report`"))
    };
    demand_apart(&|file| boundary.demand_apart(file))?;
    let task = task(context, boundary.home(), args)?;
    let partition = context.partition(&task, &args.partition)?;
    demand_apart(&|file| boundary.demand_apart_from(&task, &partition, file))?;
    let options = Options {
        repeat: repeat(&args.repeat),
        wait: args.wait.as_deref().map(|text| duration("--wait", text)).transpose()?,
        adopt: args.adopt,
        allow_empty: args.allow_empty,
        ..Options::default()
    };
    let stdout = if args.report.as_deref() == Some("-") { Stdout::Stderr } else { Stdout::Inherit };
    let mut listener = signals::Listener::default();
    let mut again = |failed: &Conclusion, next: NextTry| {
        if context.loudness >= Loudness::Notes {
            output::say(&format!("retry: {}", next.line(failed)));
        }
    };
    boundary.run_with_retries(&task, &partition, &options, stdout, &mut || listener.attach(), &mut again)
}

/// The flags of a repeated call.
pub(crate) fn repeat(args: &RepeatArgs) -> Repeat {
    match (args.rerun, args.if_changed) {
        (true, _) => Repeat::Always,
        (_, true) => Repeat::IfChanged,
        _ => Repeat::Never,
    }
}

fn task(context: &Context, home: &refrain::Home, args: &RunArgs) -> Result<Task> {
    once_each("--in", &args.inputs, |spec, _| named(spec).map_or(spec, |(name, _)| name).to_owned())?;
    once_each("--out", &args.outputs, output_name)?;
    let declared = home.config.tasks.iter().any(|task| task.name.as_str() == args.task);
    let ad_hoc = !args.outputs.is_empty() || args.stdout.is_some();
    let mut task = if declared || !ad_hoc {
        if declared {
            refuse_scheme(args)?;
        }
        home.config.task(&args.task).map_err(|error| no_output(home, args, error))?.clone()
    } else {
        Task::new(&args.task, scheme(args)?, &context.directory)?
    };
    for spec in &args.inputs {
        let (name, location) = named(spec).ok_or_else(|| {
            let spec = without_password(spec);
            let location = spec.trim_start_matches('=');
            Error::invalid(format!("`--in {spec}` has no name")).hint(format!("write --in NAME={location}"))
        })?;
        task.inputs.retain(|input| input.name != name);
        task.inputs.push(InputSpec::path(name, location)?);
    }
    for (index, spec) in args.outputs.iter().enumerate() {
        add_output(&mut task, spec, &output_name(spec, index), false)?;
    }
    if let Some(spec) = &args.stdout {
        let name = named(spec).map_or("stdout", |(name, _)| name);
        let same = |(index, output): &(usize, &String)| output_name(output, *index) == name;
        if let Some((_, output)) = args.outputs.iter().enumerate().find(same) {
            let (output, spec) = (without_password(output), without_password(spec));
            return Err(Error::invalid(format!(
                "`--out {output}` and `--stdout {spec}` both name the output `{name}`"
            ))
            .hint("give one of them another name, or leave `--out` away"));
        }
        add_output(&mut task, spec, name, true)?;
    }
    if !args.command.is_empty() {
        task.command = Some(CommandLine::Argv(args.command.clone()));
    }
    if declared {
        set_params(&mut task, &args.params)?;
    } else {
        task.params.extend(params(&args.params)?);
    }
    set_retries(&mut task, args.retries);
    if let Some(text) = &args.ttl {
        task.lease_ttl = duration("--ttl", text)?;
    }
    if let Some(text) = &args.timeout {
        task.timeout = Some(duration("--timeout", text)?);
    }
    if let Some(text) = &args.grace {
        task.grace = duration("--grace", text)?;
    }
    task.inherit_locale |= args.inherit_locale;
    Ok(task)
}

/// Refuses the flags that say how dates are cut, of a task that says so itself.
fn refuse_scheme(args: &RunArgs) -> Result<()> {
    let grain = args.grain.map(|arg| ("--grain", "partition", grain(arg).as_str()));
    let zone = args.timezone.as_deref().map(|zone| ("--timezone", "timezone", zone));
    let Some((flag, key, value)) = grain.or(zone) else { return Ok(()) };
    let task = &args.task;
    Err(Error::invalid(format!("`{flag}` is for a task that is not in refrain.toml, and `{task}` is"))
        .hint(format!("leave it away, or declare it for all runs: `{key} = \"{value}\"` below [task.{task}]")))
}

fn scheme(args: &RunArgs) -> Result<PartitionScheme> {
    Ok(match (&args.partition.date, &args.partition.partition) {
        (Some(_), _) => {
            let zone = args.timezone.as_deref().unwrap_or("UTC");
            PartitionScheme::Dates(Calendar::new(args.grain.map_or(Grain::Daily, grain), zone)?)
        }
        (None, _) if args.grain.is_some() || args.timezone.is_some() => {
            return Err(Error::invalid("`--grain` and `--timezone` say what a date is, and the call names none")
                .hint("add `--date DATE`, or leave them away"));
        }
        (None, Some(_)) => PartitionScheme::Free,
        (None, None) => PartitionScheme::None,
    })
}

fn grain(arg: GrainArg) -> Grain {
    match arg {
        GrainArg::Hourly => Grain::Hourly,
        GrainArg::Daily => Grain::Daily,
        GrainArg::Weekly => Grain::Weekly,
        GrainArg::Monthly => Grain::Monthly,
        GrainArg::Yearly => Grain::Yearly,
    }
}

/// A command for a task that is not in refrain.toml needs an output more than another name.
fn no_output(home: &refrain::Home, args: &RunArgs, error: Error) -> Error {
    if args.command.is_empty() {
        return error;
    }
    let words = args.command.iter().map(|word| word.to_string_lossy());
    let line = output::shell_line(["run", &args.task, "--out", "FILE", "--"].into_iter().map(Into::into).chain(words));
    let known = error.hint.filter(|_| !home.config.tasks.is_empty());
    let known = known.map(|hint| format!("; if one of refrain.toml is meant: {hint}")).unwrap_or_default();
    Error::invalid(format!("there is no task `{}` in refrain.toml, and the call names no output", args.task))
        .hint(format!("name an output: refrain {line}{known}"))
}

/// Sets the parameters that the flags give of a declared task, which must know them.
pub(crate) fn set_params(task: &mut Task, specs: &[String]) -> Result<()> {
    for (name, value) in params(specs)? {
        task.set_param(&name, value)?;
    }
    Ok(())
}

/// The parameters that the flags give.
fn params(specs: &[String]) -> Result<Vec<(String, String)>> {
    once_each("--param", specs, |spec, _| spec.split('=').next().unwrap_or_default().to_owned())?;
    let named = |spec: &String| match spec.split_once('=').filter(|(name, _)| is_name(name)) {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(Error::invalid(format!("`--param {spec}` is not of the form NAME=VALUE"))),
    };
    specs.iter().map(named).collect()
}

/// Sets how often it is tried again.
pub(crate) fn set_retries(task: &mut Task, retries: Option<u32>) {
    if let Some(retries) = retries {
        task.retry.attempts = retries.saturating_add(1);
    }
}

/// Refuses a flag that is given twice for one name: one of the two would be lost.
fn once_each(flag: &str, specs: &[String], name_of: impl Fn(&str, usize) -> String) -> Result<()> {
    let names: Vec<String> = specs.iter().enumerate().map(|(index, spec)| name_of(spec, index)).collect();
    for (index, name) in names.iter().enumerate() {
        if let Some(before) = names[..index].iter().position(|earlier| earlier == name) {
            let [one, other] = [before, index].map(|at| without_password(&specs[at]));
            return Err(Error::invalid(format!("`{flag} {one}` and `{flag} {other}` both name `{name}`"))
                .hint("leave one of them away, or give it another name"));
        }
    }
    Ok(())
}

/// The name of an output of the command line: its own, or one by its place.
fn output_name(spec: &str, index: usize) -> String {
    match named(spec) {
        Some((name, _)) => name.to_owned(),
        None if index == 0 => "out".to_owned(),
        None => format!("out{}", index + 1),
    }
}

fn add_output(task: &mut Task, spec: &str, name: &str, stdout: bool) -> Result<()> {
    let location = named(spec).map_or(spec, |(_, location)| location);
    let mut output = if refrain::config::is_database_url(location) {
        let table =
            refrain::config::table_from_url(location).map_err(|error| error.within(format!("output `{name}`")))?;
        OutputSpec::table(name, table, &task.partitions)?
    } else {
        OutputSpec::new(name, location)?
    };
    output.stdout = stdout;
    match task.outputs.iter_mut().find(|known| known.name == name) {
        // What the configuration asks of the output is asked wherever it is published.
        Some(known) => {
            let OutputSpec { location, table, .. } = output;
            *known = OutputSpec { location, table, stdout: known.stdout || stdout, ..known.clone() }
        }
        None => task.outputs.push(output),
    }
    Ok(())
}

/// `NAME=REST`, where NAME is a name and not the beginning of a path.
fn named(spec: &str) -> Option<(&str, &str)> {
    let (name, rest) = spec.split_once('=')?;
    is_name(name).then_some((name, rest))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

pub(crate) fn duration(flag: &str, text: &str) -> Result<Duration> {
    parse_duration(text).map_err(|error| error.within(format!("`{flag}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_from_a_path() {
        assert_eq!(named("report=out.csv"), Some(("report", "out.csv")));
        assert_eq!(named("warehouse/dt=2013-01-01/"), None);
        assert_eq!(named("delays=warehouse/dt={date}/"), Some(("delays", "warehouse/dt={date}/")));
        assert_eq!(named("out.csv"), None);
        assert_eq!(named("out="), Some(("out", "")));
        assert_eq!(named("=out"), None);
    }
}
