//! Accepting connections and serving each on a task of its own, with bounds on how many there are and how long they may
//! take to say what they want.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::limits::Limits;
use crate::patience::Patience;

/// How long to wait when a connection cannot be accepted, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves connections of a listener.
pub struct Connections {
    /// Where they come from.
    pub listener: TcpListener,
    /// Encrypted, if there is one.
    pub tls: Option<TlsAcceptor>,
    /// What answers.
    pub router: Router,
    /// Their bounds.
    pub limits: Limits,
}

impl Connections {
    /// Accepts connections until `end` is ready; those that are open then finish the response that they are sending.
    pub async fn serve(self, end: impl Future<Output = ()>, last_words: Duration) {
        let Connections { listener, tls, router, limits } = self;
        let places = Arc::new(Semaphore::new(limits.connections));
        let graceful = GracefulShutdown::new();
        let mut end = std::pin::pin!(end);
        loop {
            let accepted = tokio::select! {
                _ = &mut end => break,
                accepted = accept(&listener, &places) => accepted,
            };
            let Ok((stream, place)) = accepted else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            // Tokens are small, and should leave at once.
            let _ = stream.set_nodelay(true);
            let (tls, router, watcher) = (tls.clone(), router.clone(), graceful.watcher());
            let (head_time, write_time) = (limits.head_time, limits.write_time);
            tokio::spawn(async move {
                let _place = place;
                match tls {
                    None => talk(stream, router, head_time, write_time, watcher).await,
                    Some(tls) => {
                        // One that does not come to terms in time is no client.
                        if let Ok(Ok(stream)) = tokio::time::timeout(head_time, tls.accept(stream)).await {
                            talk(stream, router, head_time, write_time, watcher).await;
                        }
                    }
                }
            });
        }
        drop(listener);
        let _ = tokio::time::timeout(last_words, graceful.shutdown()).await;
    }
}

/// The next connection, when there is a place for it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

/// Serves one connection to its end. What goes wrong is its client's: there is no client left to tell.
async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    head_time: Duration,
    write_time: Duration,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let stream = TokioIo::new(Patience::new(stream, write_time));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_time).max_headers(100);
    let connection = http.serve_connection(stream, TowerToHyperService::new(router));
    let _ = watcher.watch(connection).await;
}
