//! A cache folder of its own and the binary run in it, without the variables of the shell that runs the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

pub struct Machine {
    folder: TempDir,
    endpoint: String,
    token: Option<&'static str>,
}

/// What a run of the binary said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Said {
    /// The run failed with exactly one line besides warnings and news, which holds these words.
    pub fn assert_error(&self, words: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(1), ""), "{self:?}");
        let errors: Vec<&str> = self.stderr.lines().filter(|line| !is_news(line)).collect();
        let [line] = errors[..] else { panic!("{self:?}") };
        assert!(line.starts_with("error: ") && line.contains(words), "{line} / {words}");
    }
}

/// Whether a line of stderr tells something else than what went wrong.
fn is_news(line: &str) -> bool {
    line.starts_with("warning: ") || line.starts_with("fetching ")
}

impl Machine {
    pub fn new(endpoint: &str) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), endpoint: endpoint.to_owned(), token: None }
    }

    pub fn with_token(self, token: &'static str) -> Self {
        Self { token: Some(token), ..self }
    }

    pub fn with_endpoint(self, endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), ..self }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gleed"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env_clear().env("GLEED_CACHE", self.cache()).env("HF_ENDPOINT", &self.endpoint);
        if let Some(token) = self.token {
            command.env("HF_TOKEN", token);
        }
        // Without it a program cannot open a socket on Windows.
        if let Some(root) = std::env::var_os("SYSTEMROOT") {
            command.env("SYSTEMROOT", root);
        }
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Said {
        self.command(arguments).output().unwrap().into()
    }

    pub fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// All files in the cache but the lock, relative, sorted.
    pub fn cached(&self) -> Vec<String> {
        fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() { walk(&path, found) } else { found.push(path) }
            }
        }
        let (root, mut found) = (self.cache(), Vec::new());
        walk(&root, &mut found);
        let relative = |path: PathBuf| path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
        let mut names: Vec<String> = found.into_iter().map(relative).filter(|name| name != ".lock").collect();
        names.sort();
        names
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.cache().join(name)).unwrap()
    }
}

/// Content that differs everywhere, so that a wrong offset shows.
pub fn content(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
