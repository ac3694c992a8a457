//! Amazon Bedrock.

use crate::aws::AwsCredentials;
use crate::dialects::converse::ConverseDialect;

/// `bedrock(model)`: `https://bedrock-runtime.{region}.amazonaws.com/model/{model}/converse`. Requests are signed with the
/// credentials, or have the key in `AWS_BEARER_TOKEN_BEDROCK`.
///
/// ```
/// use turntree_upp::AwsCredentials;
/// use turntree_upp::dialect::Dialect as _;
/// use turntree_upp::providers::bedrock::bedrock;
///
/// let dialect = bedrock("eu-central-1", &AwsCredentials::default());
/// assert_eq!(dialect.path("amazon.nova-lite-v1:0", true), "/model/amazon.nova-lite-v1%3A0/converse-stream");
/// ```
pub fn bedrock(region: &str, credentials: &AwsCredentials) -> ConverseDialect {
    ConverseDialect::new(region, credentials)
}
