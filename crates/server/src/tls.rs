//! Encrypted connections: a certificate and its key from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Where a certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate, and those that vouch for it after it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What is wrong with a certificate or a key.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct TlsError {
    path: PathBuf,
    what: String,
}

impl Tls {
    /// Reads both files.
    pub fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        let wrong =
            |path: &Path, what: &dyn ToString| TlsError { path: path.to_path_buf(), what: what.to_string() };
        let of_certificate = |error: &dyn ToString| wrong(&self.certificate, error);
        let certificates =
            CertificateDer::pem_file_iter(&self.certificate).map_err(|e| of_certificate(&e))?;
        let certificates: Vec<CertificateDer> =
            certificates.collect::<Result<_, _>>().map_err(|e| of_certificate(&e))?;
        if certificates.is_empty() {
            return Err(of_certificate(&"the file has no certificate in PEM form"));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| wrong(&self.key, &error))?;
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key));
        let mut config = config.map_err(|error| of_certificate(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}
