//! Why nobody was logged in.
//!
//! What comes in: what a browser or the provider sent, and why it cannot be used. What goes out: [`LoginError`]: a sentence
//! for the person in front of the browser, and what to do next. No secret, code or token is in any of them.

/// Why nobody was logged in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The answer is for a login that this browser did not begin.
    #[error("This answer is not for a login that this browser began here")]
    OtherBrowser,
    /// It took too long.
    #[error("This login took longer than ten minutes, or was begun in the future")]
    TooLate,
    /// The answer was used before.
    #[error("This answer was used before")]
    Used,
    /// The address that the browser came back with.
    #[error("The answer that your browser brought cannot be read: {0}")]
    Returned(&'static str),
    /// Another provider answered, or one that should have said who it is did not.
    #[error("The answer is not from the provider that this hub asked")]
    MixedUp,
    /// The provider says no.
    #[error("The provider answered `{0}`")]
    Refused(String),
    /// The provider cannot be asked.
    #[error("The provider cannot be reached: {0}")]
    Unreachable(String),
    /// Too many logins at once.
    #[error("Too many people log in at this moment")]
    Busy,
    /// What the provider says of itself.
    #[error("The provider's metadata cannot be used: {0}")]
    Provider(String),
    /// It did not take the code.
    #[error("The provider did not take the code: {0}")]
    Exchange(String),
    /// No key of the provider made the signature.
    #[error("The provider's ID token is not signed by a key that it publishes: {0}")]
    Signature(String),
    /// The ID token is for something else.
    #[error("The provider's ID token cannot be used: {0}")]
    Token(String),
    /// It does not say who someone is, in a way that can be used.
    #[error("The provider sent no identity that this hub can use: {0}")]
    Person(String),
}

impl LoginError {
    /// What to do next.
    pub fn help(&self) -> &'static str {
        match self {
            Self::OtherBrowser | Self::TooLate | Self::Used | Self::Returned(_) => {
                "Begin again with the button below, in this browser, at the address that the hub's settings name."
            }
            Self::MixedUp => {
                "Begin again. If it happens again, tell the hub's operator: someone may be attacking logins."
            }
            Self::Refused(_) => {
                "Begin again, or ask the provider's operator whether you may use this hub."
            }
            Self::Unreachable(_) | Self::Busy => {
                "Try again, or log in with a token; the hub's log has more. Tokens still work."
            }
            Self::Provider(_) | Self::Exchange(_) | Self::Signature(_) | Self::Token(_) => {
                "Tell the hub's operator: its settings and the provider's have to agree, and so have their clocks. Tokens still \
                 work."
            }
            Self::Person(_) => {
                "Tell the operator of this hub or of the provider: `name` and `grants` of the hub's settings name claims, and the provider \
                 has to send them in its ID token."
            }
        }
    }

    /// Whether it is the provider that does not answer as it must.
    pub fn is_of_the_provider(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Busy | Self::Provider(_))
    }
}
