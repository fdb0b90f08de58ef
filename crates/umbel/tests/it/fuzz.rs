//! The corpus of small inputs of each fuzz target → no promise is broken.

#[path = "../../../../fuzz/targets.rs"]
mod targets;

use std::path::Path;

/// Runs a target on every file of its corpus.
fn replay(name: &str, target: fn(&[u8])) {
    targets::hook();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut n = 0;
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        eprintln!("{}", path.display());
        target(&fs_err::read(path).unwrap());
        n += 1;
    }
    assert!(n > 0, "the corpus of `{name}` is empty");
}

macro_rules! replays {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name), targets::$name);
            }
        )*
    };
}

replays! { leaves text html pdf office words }
