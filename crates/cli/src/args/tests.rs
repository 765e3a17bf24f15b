//! The command line as people type it.

use clap::CommandFactory;
use millrace_types::Millis;

use super::{client::StopModeArg, *};

fn parse(line: &str) -> Result<Args, clap::Error> {
    Args::try_parse_from(line.split_whitespace())
}

#[test]
fn the_definition_holds_together() {
    Args::command().debug_assert();
}

#[test]
fn what_people_type() {
    let Command::Run(run) =
        parse("millrace run q.sql -p 4 --workers 2 --set a.b=c=d --timeout 1min")
            .unwrap()
            .command
    else {
        panic!("not run");
    };
    assert_eq!((run.parallelism, run.workers), (4, 2));
    assert_eq!(run.settings, [("a.b".to_owned(), "c=d".to_owned())]);
    assert_eq!(run.timeout, Some(Millis(60_000)));

    let args =
        parse("millrace jobs stop flights --mode drain --output json --server http://h:1").unwrap();
    assert_eq!(args.global.output, Some(OutputFormat::Json));
    assert_eq!(args.global.server, "http://h:1");
    let Command::Jobs(JobsCommand::Stop(stop)) = args.command else {
        panic!("not stop");
    };
    assert_eq!(
        (stop.job.as_str(), stop.mode),
        ("flights", StopModeArg::Drain)
    );

    for line in [
        "millrace up",
        "millrace up --data-dir d --listen 127.0.0.1:0 --database-url postgres://x",
        "millrace jobs create a.yaml --name n --no-start",
        "millrace jobs list --state running",
        "millrace jobs get a",
        "millrace jobs update a a.sql -p 8",
        "millrace jobs start a --savepoint 3",
        "millrace jobs delete a --force",
        "millrace jobs events a -f",
        "millrace jobs metrics a -w",
        "millrace jobs output a --table t",
        "millrace savepoints create a",
        "millrace savepoints list a",
        "millrace savepoints delete a 3",
        "millrace checkpoints list a",
        "millrace sql validate -",
        "millrace sql explain a.sql",
        "millrace control-plane --database-url postgres://x --data-dir d",
        "millrace worker --control-plane 127.0.0.1:1 --job 0190b3c2-7b1e-7c00-8000-3f6f2f0d9a11 --worker-id 0190b3c2-7b1e-7c00-8000-3f6f2f0d9a12 --data-dir d",
    ] {
        parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for line in [
        "millrace",
        "millrace fly",
        "millrace run",
        "millrace run q.sql --parallelism 0",
        "millrace run q.sql --set a",
        "millrace run q.sql --set =a",
        "millrace run q.sql --timeout soon",
        "millrace run q.sql --output xml",
        "millrace up --listen nowhere",
        "millrace jobs start a --savepoint 1 --empty",
        "millrace jobs stop a --mode slowly",
        "millrace jobs create a.sql --name a/b",
        "millrace savepoints delete a x",
        "millrace jobs list --tenant a/b",
        "millrace worker --control-plane x --job y --worker-id z --data-dir d",
    ] {
        assert_eq!(
            parse(line).map(|_| ()).unwrap_err().exit_code(),
            2,
            "{line}"
        );
    }
}

#[test]
fn durations_have_a_unit() {
    for flag in ["--timeout", "--checkpoint-interval"] {
        let error = parse(&format!("millrace run q.sql {flag} 5")).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.exit_code(), 2, "{text}");
        assert!(text.contains("write `5s` for seconds"), "{text}");
    }
}

#[test]
fn every_command_has_a_manual() {
    fn walk(command: &clap::Command) {
        assert!(
            command.get_about().is_some(),
            "{} has no help",
            command.get_name()
        );
        for argument in command.get_arguments() {
            assert!(
                argument.get_help().is_some()
                    || argument.get_id() == "help"
                    || argument.get_id() == "version",
                "{} of {} has no help",
                argument.get_id(),
                command.get_name()
            );
        }
        command.get_subcommands().for_each(walk);
    }
    walk(&Args::command());
}
