//! The command line: words in, one engine call, words or JSON out.
//!
//! Invariant: nothing here decides what is retrieved.

mod args;
mod commands;
mod explain;
mod interrupt;
mod output;
mod wire;

use args::{Args, Command};
use clap::Parser as _;
use output::{Output, exit_code};
use std::process::ExitCode;

fn main() -> ExitCode {
    // This program is its own worker: what a broken file breaks is a child process.
    umbel::formats::worker::serve();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let usage = error.use_stderr();
            // Help and usage errors go where clap sends them; a closed pipe is nobody's fault.
            let _ = error.print();
            return ExitCode::from(if usage { 2 } else { 0 });
        }
    };
    let output = Output::new(args.json);
    match run(&args, &output) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output.error(&error);
            ExitCode::from(exit_code(&error))
        }
    }
}

fn run(args: &Args, output: &Output) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        match &args.command {
            Command::Demo(demo) => commands::demo::run(args, demo, output).await,
            Command::Index(index) => commands::index::run(args, index, output).await,
            Command::Remove(remove) => commands::index::remove(args, remove, output).await,
            Command::Search(search) => commands::search::run(args, search, output).await,
            Command::Ask(ask) => commands::ask::run(args, ask, output).await,
            Command::Show(show) => commands::inspect::show(args, show, output).await,
            Command::Tree(tree) => commands::inspect::tree(args, tree, output).await,
            Command::Check(check) => commands::check::run(args, check, output).await,
            Command::Stats(stats) => commands::inspect::stats(args, stats, output).await,
            Command::Log(log) => commands::log::run(args, log, output),
            Command::Replay(replay) => commands::replay::run(args, replay, output).await,
            Command::Dupes(dupes) => commands::dupes::run(args, dupes, output).await,
            Command::Eval(eval) => commands::eval::run(args, eval, output).await,
            Command::Compact => commands::compact::run(args, output).await,
            Command::Model(model) => commands::model::run(args, model, output),
            Command::Config(config) => commands::config::run(args, config, output),
            Command::Doctor => commands::doctor::run(args, output).await,
        }
    })
}
