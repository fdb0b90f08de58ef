//! `umbel compact`.

use super::configuration;
use crate::args::Args;
use crate::interrupt;
use crate::output::{Output, number};
use umbel::engine::{Engine, peek};

pub(crate) async fn run(args: &Args, output: &Output) -> anyhow::Result<u8> {
    peek(&args.store).await?;
    interrupt::listen()?;
    let bar = output.progress();
    let config = configuration(args, &[])?;
    let engine = Engine::open(&args.store, config, None, &|step| bar.show(step)).await?;
    let done = engine.compact(&|step| bar.show(step)).await?;
    drop(bar);
    if output.is_json() {
        output.json(&serde_json::json!({
            "forgotten_vectors": done.forgotten_vectors,
            "before_bytes": done.before_bytes,
            "after_bytes": done.after_bytes,
        }))?;
    } else {
        let kib = |bytes: u64| number((bytes / 1024) as usize);
        output.line(format!(
            "{} KiB before, {} KiB now; {} unused vectors forgotten",
            kib(done.before_bytes),
            kib(done.after_bytes),
            number(done.forgotten_vectors)
        ));
    }
    Ok(0)
}
