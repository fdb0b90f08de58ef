//! `umbel config`.

use super::configuration;
use crate::args::{self, Args, ConfigCommand};
use crate::output::Output;

pub(crate) fn run(args: &Args, config: &args::Config, output: &Output) -> anyhow::Result<u8> {
    let ConfigCommand::Show = config.command;
    let config = configuration(args, &[])?;
    if output.is_json() {
        output.json(config.settings())?;
    } else {
        output.text(&config.to_toml());
    }
    Ok(0)
}
