//! A child process, also under a stopwatch: when its first byte comes, and how much memory it took.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use crate::{Error, Result};

/// What was seen of a child that ended well.
pub struct Seen {
    /// Seconds from the call that started it to the first byte on its stdout.
    pub first_byte: f64,
    /// The most memory that it had resident, in bytes, where the system tells.
    pub peak_memory: Option<u64>,
    /// Everything on its stderr.
    pub stderr: Vec<u8>,
}

/// Runs a command to its end. No output at all or an exit that is not 0 is an error.
pub fn watch(command: &mut Command) -> Result<Seen> {
    let program = name(command);
    let failed = |source| Error::Process { program: program.clone(), source };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn().map_err(failed)?;
    let (Some(mut errors), Some(mut output)) = (child.stderr.take(), child.stdout.take()) else {
        return Err(failed(std::io::Error::other("its output was not piped")));
    };
    // Read beside the output, so that the child never waits for room in a pipe.
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        // What could be read until an error is still what it said.
        let _ = errors.read_to_end(&mut said);
        said
    });
    let mut byte = [0];
    let is_any = output.read(&mut byte).map_err(failed)? > 0;
    let first_byte = start.elapsed().as_secs_f64();
    output.read_to_end(&mut Vec::new()).map_err(failed)?;
    drop(output);
    let (success, peak_memory) = wait(child).map_err(failed)?;
    let stderr = reader.join().unwrap_or_default();
    if !success {
        return Err(Error::Failed { said: last_line(&stderr), program });
    }
    if !is_any {
        return Err(Error::Output { program, what: "printed nothing".to_string() });
    }
    Ok(Seen { first_byte, peak_memory, stderr })
}

/// Runs a command to its end, not timed.
pub fn finish(command: &mut Command) -> Result<Output> {
    let program = name(command);
    let output = command.output().map_err(|source| Error::Process { program: program.clone(), source })?;
    if !output.status.success() {
        let said = format!("{}: {}", output.status, last_line(&output.stderr));
        return Err(Error::Failed { program, said });
    }
    Ok(output)
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// The last line that is not empty.
fn last_line(stderr: &[u8]) -> String {
    let said = String::from_utf8_lossy(stderr);
    said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim().to_string()
}

/// Waits for a child: whether it ended well, and its peak of resident memory. The system counts what the
/// parent had resident when it forked, so a parent that measures must be small.
#[cfg(unix)]
fn wait(child: Child) -> std::io::Result<(bool, Option<u64>)> {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the child is ours and was not waited for; both pointers are to memory of this frame.
    let waited = unsafe { libc::wait4(child.id() as libc::pid_t, &mut status, 0, usage.as_mut_ptr()) };
    if waited < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: all zeros are a valid `rusage`, whether or not the call has written it.
    let peak = unsafe { usage.assume_init() }.ru_maxrss as u64;
    // Linux counts in KiB, Apple's systems in bytes.
    let unit = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
    Ok((libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, (peak > 0).then_some(peak * unit)))
}

#[cfg(not(unix))]
fn wait(mut child: Child) -> std::io::Result<(bool, Option<u64>)> {
    Ok((child.wait()?.success(), None))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Seen> {
        watch(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn the_first_byte_is_timed_and_not_the_end() {
        let seen = shell("sleep 0.2; echo a; sleep 2; echo said >&2").unwrap();
        assert!((0.2..2.0).contains(&seen.first_byte), "{}", seen.first_byte);
        assert_eq!(seen.stderr, b"said\n");
        assert!(seen.peak_memory.unwrap() > 100_000);
    }

    #[test]
    fn failures_are_told() {
        let told = |script: &str| shell(script).err().unwrap().to_string();
        assert!(told("echo a; echo broken >&2; exit 3").contains("broken"));
        assert!(told("kill -9 $$").contains("it said nothing"));
        assert!(told("true").contains("printed nothing"));
    }
}
