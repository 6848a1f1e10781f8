//! Mail: a message as text, handed to a mail server.
//!
//! What comes in: the settings of one, and a message. What goes out: whether the server took it. Without TLS it is given to a server on
//! this machine only. The password is read again for each message and is in no error.

use std::time::Duration;

use lettre::address::Address;
use lettre::message::{Mailbox, header};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{SmtpTransport, Transport as _};
use outhaul_http::Authority;
use outhaul_kit::durable;
use outhaul_kit::text::chain;

use crate::Destination;
use crate::message::Message;
use crate::settings::{MailSettings, MailTls};

/// Most bytes of a password.
const MAX_PASSWORD_BYTES: u64 = 4096;
/// How long the server may take for each answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Mail to some people.
#[derive(Debug)]
pub struct Mail(pub MailSettings);

impl Destination for Mail {
    fn send(&self, message: &Message) -> Result<(), String> {
        let transport = self.transport()?;
        let mail = self.mail(message)?;
        let sent = transport.send(&mail);
        sent.map(drop).map_err(|error| chain(&error))
    }
}

impl Mail {
    fn transport(&self) -> Result<SmtpTransport, String> {
        let Some((host, port)) = self.0.address() else {
            return Err("`mail.server` is not `HOST:PORT`".into());
        };
        let tls = match self.0.tls {
            MailTls::None => Tls::None,
            MailTls::Starttls => Tls::Required(self.parameters(host)?),
            MailTls::Tls => Tls::Wrapper(self.parameters(host)?),
        };
        let mut builder = SmtpTransport::builder_dangerous(host)
            .port(port)
            .timeout(Some(PATIENCE))
            .tls(tls);
        if let (Some(user), Some(path)) = (&self.0.user, &self.0.password_file) {
            let read = durable::read_secret(path, MAX_PASSWORD_BYTES)
                .map_err(|error| error.to_string())?;
            let password = std::str::from_utf8(read.trim_ascii_end())
                .map_err(|_| format!("`{}` is not text", path.display()))?;
            builder = builder.credentials(Credentials::new(user.clone(), password.to_owned()));
        }
        Ok(builder.build())
    }

    /// Only the authority that the file names, or else the system's, is trusted.
    fn parameters(&self, host: &str) -> Result<TlsParameters, String> {
        let authority = match &self.0.ca {
            Some(path) => Authority::File(path),
            None => Authority::System,
        };
        let mut builder =
            TlsParameters::builder(host.to_owned()).certificate_store(CertificateStore::None);
        for der in authority.der().map_err(|error| error.problem())? {
            let certificate = Certificate::from_der(der).map_err(|error| chain(&error))?;
            builder = builder.add_root_certificate(certificate);
        }
        builder.build().map_err(|error| chain(&error))
    }

    fn mail(&self, message: &Message) -> Result<lettre::Message, String> {
        let mailbox = |text: &String| -> Result<Mailbox, String> {
            let address = text.parse::<Address>();
            let address = address.map_err(|_| format!("`{text}` is not a mail address"))?;
            Ok(Mailbox::new(None, address))
        };
        let mut builder = lettre::Message::builder()
            .from(mailbox(&self.0.from)?)
            .subject(message.subject())
            .message_id(Some(format!("<{}@outhaul>", message.body.id)));
        for reader in &self.0.to {
            builder = builder.to(mailbox(reader)?);
        }
        let mail = builder.header(header::ContentType::TEXT_PLAIN);
        mail.body(message.text()).map_err(|error| error.to_string())
    }
}
