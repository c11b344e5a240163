//! Being told to stop: Ctrl-C, and SIGTERM where there is such a thing.

use std::io;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Brings something each time the process is told to stop.
pub fn stops() -> io::Result<UnboundedReceiver<()>> {
    let (sender, receiver) = unbounded_channel();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            let (mut signals, sender) = (signal(kind)?, sender.clone());
            tokio::spawn(async move { while signals.recv().await.is_some() && sender.send(()).is_ok() {} });
        }
    }
    #[cfg(not(unix))]
    tokio::spawn(async move { while tokio::signal::ctrl_c().await.is_ok() && sender.send(()).is_ok() {} });
    Ok(receiver)
}
