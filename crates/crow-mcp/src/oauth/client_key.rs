//! Private keys with which Crow proves which client it is: the method `private_key_jwt` of RFC 7523.

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::{SecureRandom as _, SystemRandom},
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    },
};
use rustls_pki_types::{PrivateKeyDer, pem::PemObject as _};
use serde_json::json;

/// Length in characters from which a line of a key is secret by itself.
const SHORTEST_SECRET_LINE: usize = 16;
/// Validity of an assertion, in seconds.
const VALIDITY: u64 = 60;

/// A private key that is registered at an authorization server. Cheap to clone; its text form says only its kind.
#[derive(Clone)]
pub struct ClientKey(Arc<KeyParts>);

struct KeyParts {
    pair: SigningPair,
    /// Value of `kid` in the header of assertions.
    id: Option<String>,
    /// The lines of the key.
    lines: Vec<String>,
}

enum SigningPair {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// A text is not a private key that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClientKeyError {
    /// There is no private key in the text.
    #[error("it is no private key in PEM form (`-----BEGIN PRIVATE KEY-----`)")]
    NotPem,
    /// The key is protected by a passphrase.
    #[error("the key has a passphrase; `openssl pkey -in KEY` writes one without")]
    Encrypted,
    /// The key is an elliptic curve key of the older form.
    #[error("the key has the form SEC 1; `openssl pkcs8 -topk8 -nocrypt -in KEY` converts it")]
    Sec1,
    /// The key is of another kind or too short.
    #[error(
        "the key must be one of P-256, P-384, Ed25519 (with its public part: `openssl pkey -in KEY` adds it), or RSA with 2048 to 4096 bits"
    )]
    UnknownKind,
}

impl ClientKey {
    /// Reads a key in PEM form (PKCS 8, or PKCS 1 for RSA). The algorithm of signatures follows from the key: ES256, ES384,
    /// `EdDSA` or RS256. `id` tells the server which of several registered keys it is.
    ///
    /// # Errors
    /// Fails if the text is not such a key.
    pub fn from_pem(text: &str, id: Option<String>) -> Result<Self, ClientKeyError> {
        if text.contains("ENCRYPTED") {
            return Err(ClientKeyError::Encrypted);
        }
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes());
        let pair = match key.map_err(|_| ClientKeyError::NotPem)? {
            PrivateKeyDer::Pkcs8(key) => SigningPair::from_pkcs8(key.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(key) => {
                RsaKeyPair::from_der(key.secret_pkcs1_der()).ok().map(SigningPair::Rsa)
            }
            PrivateKeyDer::Sec1(_) => return Err(ClientKeyError::Sec1),
            _ => None,
        };
        let pair = pair.ok_or(ClientKeyError::UnknownKind)?;
        let lines = text.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_SECRET_LINE);
        let lines = lines.filter(|line| !line.starts_with("-----")).map(str::to_owned).collect();
        Ok(Self(Arc::new(KeyParts { pair, id, lines })))
    }

    /// Returns the lines of the key that must not appear anywhere.
    pub fn secret_lines(&self) -> &[String] {
        &self.0.lines
    }

    /// Returns a signed statement that the sender is `client_id`, for the server `audience`. `now` is in seconds since 1970.
    pub(super) fn assertion(&self, client_id: &str, audience: &str, now: u64) -> String {
        let random = SystemRandom::new();
        let mut number = [0; 16];
        random.fill(&mut number).expect("invariant: the system has random numbers");
        let mut header = json!({"alg": self.0.pair.algorithm(), "typ": "JWT"});
        if let Some(id) = &self.0.id {
            header["kid"] = json!(id);
        }
        let claims = json!({
            "iss": client_id,
            "sub": client_id,
            "aud": audience,
            "jti": URL_SAFE_NO_PAD.encode(number),
            "iat": now,
            "exp": now + VALIDITY,
        });
        let encode = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let signature = URL_SAFE_NO_PAD.encode(self.0.pair.sign(signed.as_bytes(), &random));
        format!("{signed}.{signature}")
    }
}

impl SigningPair {
    fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        let ecdsa = |algorithm| EcdsaKeyPair::from_pkcs8(algorithm, der, &random).ok();
        ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING)
            .map(Self::P256)
            .or_else(|| ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING).map(Self::P384))
            .or_else(|| RsaKeyPair::from_pkcs8(der).ok().map(Self::Rsa))
            // Without the public part too, as openssl writes it.
            .or_else(|| Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok().map(Self::Ed25519))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
            Self::Rsa(_) => "RS256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    fn public_key(&self) -> &[u8] {
        match self {
            Self::P256(pair) | Self::P384(pair) => pair.public_key().as_ref(),
            Self::Rsa(pair) => pair.public_key().as_ref(),
            Self::Ed25519(pair) => pair.public_key().as_ref(),
        }
    }

    fn sign(&self, message: &[u8], random: &SystemRandom) -> Vec<u8> {
        match self {
            Self::P256(pair) | Self::P384(pair) => {
                let signature = pair.sign(random, message);
                signature.expect("invariant: the system has random numbers").as_ref().to_vec()
            }
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, random, message, &mut signature)
                    .expect("invariant: the signature has the length of the modulus");
                signature
            }
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }
}

impl PartialEq for ClientKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id && self.0.pair.public_key() == other.0.pair.public_key()
    }
}

impl Eq for ClientKey {}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (algorithm, id) = (self.0.pair.algorithm(), &self.0.id);
        f.debug_struct("ClientKey").field("algorithm", &algorithm).field("id", id).finish()
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
        UnparsedPublicKey, VerificationAlgorithm,
    };
    use serde_json::Value;

    use super::*;

    const P256: &str = include_str!("../../tests/keys/p256.pem");
    const KEYS: [(&str, &str, &dyn VerificationAlgorithm); 5] = [
        (P256, "ES256", &ECDSA_P256_SHA256_FIXED),
        (include_str!("../../tests/keys/p384.pem"), "ES384", &ECDSA_P384_SHA384_FIXED),
        (include_str!("../../tests/keys/rsa.pem"), "RS256", &RSA_PKCS1_2048_8192_SHA256),
        (include_str!("../../tests/keys/rsa-pkcs1.pem"), "RS256", &RSA_PKCS1_2048_8192_SHA256),
        (include_str!("../../tests/keys/ed25519.pem"), "EdDSA", &ED25519),
    ];

    fn decode(part: &str) -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    #[test]
    fn an_assertion_is_signed_by_the_key_and_names_client_and_server() {
        for (pem, algorithm, verification) in KEYS {
            let key = ClientKey::from_pem(pem, Some("k1".to_owned())).unwrap();
            let assertion = key.assertion("crow", "https://auth.test", 1000);
            let (signed, signature) = assertion.rsplit_once('.').unwrap();
            let public = UnparsedPublicKey::new(verification, key.0.pair.public_key());
            let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
            public.verify(signed.as_bytes(), &signature).unwrap();
            let (header, claims) = signed.split_once('.').unwrap();
            assert_eq!(decode(header), json!({"alg": algorithm, "typ": "JWT", "kid": "k1"}));
            let mut claims = decode(claims);
            assert!(claims["jti"].take().as_str().is_some_and(|id| id.len() == 22));
            let expected = json!({
                "iss": "crow", "sub": "crow", "aud": "https://auth.test",
                "iat": 1000, "exp": 1060, "jti": null,
            });
            assert_eq!(claims, expected);
        }
    }

    #[test]
    fn no_two_assertions_are_equal() {
        let key = ClientKey::from_pem(P256, None).unwrap();
        assert_ne!(key.assertion("a", "b", 1), key.assertion("a", "b", 1));
    }

    #[test]
    fn unusable_keys_are_refused_with_what_to_do() {
        let encrypted =
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----";
        let sec1 = include_str!("../../tests/keys/p256-sec1.pem");
        let short = include_str!("../../tests/keys/rsa-1024.pem");
        for (text, error) in [
            ("", ClientKeyError::NotPem),
            ("MIIEvQ", ClientKeyError::NotPem),
            (encrypted, ClientKeyError::Encrypted),
            (sec1, ClientKeyError::Sec1),
            (short, ClientKeyError::UnknownKind),
        ] {
            assert_eq!(ClientKey::from_pem(text, None).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn its_debug_text_says_nothing_of_the_key() {
        let key = ClientKey::from_pem(P256, None).unwrap();
        assert_eq!(format!("{key:?}"), "ClientKey { algorithm: \"ES256\", id: None }");
        assert_eq!(key.secret_lines().len(), P256.lines().count() - 2);
    }
}
