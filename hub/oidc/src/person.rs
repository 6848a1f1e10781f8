//! Who a verified ID token is about, and what they may do.
//!
//! What comes in: claims, and the settings. What goes out: a name that no token of the hub can have, and the grants' values that
//! the provider stated. A session keeps these values and not the scopes: what the settings take away is gone when they are read
//! the next time. What is missing gives nothing; what is of another type than it must be refuses the login.

use outhaul_access::Scopes;
use serde_json::Value;

use crate::error::LoginError;
use crate::settings::OidcSettings;
use crate::token::Claims;

/// What the name of each person begins with. No token's name has a colon.
pub const PREFIX: &str = "oidc:";
/// Longest name without it, in bytes.
const MAX_PERSON_BYTES: usize = 128;
/// Longest subject, in bytes (`OpenID` Connect Core 1.0, section 2).
const MAX_SUBJECT_BYTES: usize = 255;
/// Most values of a claim that is a list.
const MAX_VALUES: usize = 10_000;

/// Someone who logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The name under which they act: [`PREFIX`] and what the claim says, in small letters.
    pub name: String,
    /// What the provider calls them, for good.
    pub subject: String,
    /// What the provider says of them, as far as a grant asks for it.
    pub facts: Facts,
}

/// Pairs of a claim and a value that the provider stated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts(Vec<(String, String)>);

impl Person {
    /// Reads the claims of a verified token.
    ///
    /// # Errors
    /// [`LoginError::Person`] when they do not say who someone is, or a claim is of another type.
    pub fn of(claims: &Claims, settings: &OidcSettings) -> Result<Self, LoginError> {
        let wrong = |problem: String| LoginError::Person(problem);
        let subject = claims
            .0
            .get("sub")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let is_subject = |c: char| c.is_ascii() && !c.is_ascii_control();
        if subject.is_empty()
            || subject.len() > MAX_SUBJECT_BYTES
            || !subject.chars().all(is_subject)
        {
            return Err(wrong(
                "its `sub` is not 1 to 255 characters of ASCII".to_owned(),
            ));
        }
        let claim = settings.name.as_str();
        let given = match claims.0.get(claim) {
            None | Some(Value::Null) => {
                return Err(wrong(format!("it does not send `{claim}`")));
            }
            Some(Value::String(text)) => text.as_str(),
            Some(_) => return Err(wrong(format!("its `{claim}` is not a text"))),
        };
        needs_verified(claims, claim)?;
        // Nothing that looks like something else: letters of other scripts, spaces, what has no width.
        let allowed =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'+' | b'@');
        if given.is_empty() || given.len() > MAX_PERSON_BYTES || !given.bytes().all(allowed) {
            return Err(wrong(format!(
                "its `{claim}` is not 1 to {MAX_PERSON_BYTES} of `A-Z a-z 0-9 . _ - + @`; another claim may fit better"
            )));
        }
        Ok(Self {
            // `Ann` must not pass for `ann`.
            name: format!("{PREFIX}{}", given.to_ascii_lowercase()),
            subject: subject.to_owned(),
            facts: facts(claims, settings)?,
        })
    }
}

/// An e-mail address that the provider did not verify is what someone wrote.
fn needs_verified(claims: &Claims, claim: &str) -> Result<(), LoginError> {
    let is_verified = claims.0.get("email_verified") == Some(&Value::Bool(true));
    match claim != "email" || is_verified {
        true => Ok(()),
        false => {
            let text = "it does not say that it verified your e-mail address (`email_verified`)";
            Err(LoginError::Person(text.to_owned()))
        }
    }
}

fn facts(claims: &Claims, settings: &OidcSettings) -> Result<Facts, LoginError> {
    let mut found = Vec::new();
    for grant in &settings.grants {
        let claim = grant.claim.as_str();
        let stated: Vec<&str> = match claims.0.get(claim) {
            None | Some(Value::Null) => continue,
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(all)) if all.len() <= MAX_VALUES => {
                let texts: Option<_> = all.iter().map(Value::as_str).collect();
                texts.ok_or_else(|| {
                    LoginError::Person(format!("its `{claim}` is not a list of texts"))
                })?
            }
            Some(_) => {
                let text = format!("its `{claim}` is neither a text nor a list of texts");
                return Err(LoginError::Person(text));
            }
        };
        let granted: Vec<_> = grant
            .values
            .iter()
            .filter(|value| stated.contains(&value.as_str()))
            .collect();
        if !granted.is_empty() {
            needs_verified(claims, claim)?;
        }
        for value in granted {
            let fact = (claim.to_owned(), value.clone());
            if !found.contains(&fact) {
                found.push(fact);
            }
        }
    }
    Ok(Facts(found))
}

impl Facts {
    /// What they allow by these settings.
    pub fn scopes(&self, settings: &OidcSettings) -> Scopes {
        let grants = settings.grants.iter().filter(|grant| {
            let is_of = |(claim, value): &(String, String)| {
                *claim == grant.claim && grant.values.contains(value)
            };
            self.0.iter().any(is_of)
        });
        Scopes::of(grants.flat_map(|grant| grant.scopes.iter().map(|scope| scope.0)))
    }

    /// As a session keeps them.
    pub fn to_json(&self) -> String {
        serde_json::json!(self.0).to_string()
    }

    /// What a session keeps; nothing where a newer program wrote it.
    pub fn from_json(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
