//! Where the credentials of Amazon are found.

use std::fmt;

use reqsign_aws_v4::{
    AssumeRoleCredentialProvider, Credential, DefaultCredentialProvider, RequestSigner,
    StaticCredentialProvider,
};
use reqsign_core::{Context, Signer};
use turntree_core::secret::Secret;

/// The name of the sessions that are opened with a role.
const SESSION_NAME: &str = "turntree";

/// The credentials of requests to Amazon. `Debug` shows no secrets.
///
/// Without keys they come from, in this order: the environment, the shared files (keys, single sign-on, web identity, a
/// program), the container, and the machine.
#[derive(Clone, Default)]
pub struct AwsCredentials {
    /// The profile of the shared files. Default: `AWS_PROFILE`, else `default`.
    pub profile: Option<String>,
    /// Id and secret of an access key, and its session token if it is temporary.
    pub keys: Option<(String, Secret, Option<Secret>)>,
    /// The ARN of a role that is assumed with these credentials.
    pub role: Option<String>,
}

impl AwsCredentials {
    /// The signer of a service in a region.
    pub(super) fn signer(&self, context: Context, service: &str, region: &str) -> Signer<Credential> {
        let requests = || RequestSigner::new(service, region);
        let Some(role) = &self.role else { return self.signer_with(context, requests()) };
        let of_role = self.signer_with(context.clone(), RequestSigner::new("sts", region));
        let provider = AssumeRoleCredentialProvider::new(role.clone(), of_role)
            .with_role_session_name(SESSION_NAME.to_owned())
            .with_region(region.to_owned())
            .with_regional_sts_endpoint();
        Signer::new(context, provider, requests())
    }

    fn signer_with(&self, context: Context, requests: RequestSigner) -> Signer<Credential> {
        match &self.keys {
            Some((id, secret, token)) => {
                let fixed = StaticCredentialProvider::new(id, secret.expose());
                let fixed = match token {
                    Some(token) => fixed.with_session_token(token.expose()),
                    None => fixed,
                };
                Signer::new(context, fixed, requests)
            }
            None => Signer::new(context, self.found(), requests),
        }
    }

    fn found(&self) -> DefaultCredentialProvider {
        let sources = DefaultCredentialProvider::builder();
        match &self.profile {
            // Keys in the environment are those of another account.
            Some(profile) => sources.with_profile(profile).no_env().no_ecs().no_imds().build(),
            None => sources.build(),
        }
    }
}

impl fmt::Debug for AwsCredentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AwsCredentials")
            .field("profile", &self.profile)
            .field("keys", &self.keys.as_ref().map(|_| "***"))
            .field("role", &self.role)
            .finish()
    }
}
