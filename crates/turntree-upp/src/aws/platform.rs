//! What the sources of credentials need of the platform: files, environment, programs and HTTP.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use reqsign_core::{CommandExecute, CommandOutput, Context, Env, Error, FileRead, HttpSend, OsEnv, Result};
use tokio_util::sync::CancellationToken;
use turntree_core::http::{HttpClient, HttpConfig, HttpError, HttpRequest, Proxy, RetryPolicy};
use turntree_core::runtime;

/// The time limit for one answer of a source.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for a metadata service, which answers at once where there is one.
const METADATA_TIMEOUT: Duration = Duration::from_secs(2);

/// The environment variable with another URL of the Security Token Service.
const STS_URL: &str = "AWS_ENDPOINT_URL_STS";

/// The platform of this process.
pub(super) fn context() -> Context {
    Context::new()
        .with_file_read(Files)
        .with_http_send(Web)
        .with_env(Environment)
        .with_command_execute(Programs)
}

#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> Result<Vec<u8>> {
        let path = path.to_owned();
        let read = runtime::spawn_blocking(move || std::fs::read(&path)).await;
        let read = read.map_err(|error| Error::unexpected(error.to_string()))?;
        read.map_err(|error| Error::config_invalid(error.to_string()))
    }
}

/// The environment of the process; variables without a value count as missing, as in Amazon's SDKs.
#[derive(Debug)]
struct Environment;

impl Env for Environment {
    fn var(&self, key: &str) -> Option<String> {
        runtime::environment(key).filter(|value| !value.is_empty())
    }

    fn vars(&self) -> HashMap<String, String> {
        OsEnv.vars()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        OsEnv.home_dir()
    }
}

#[derive(Debug)]
struct Programs;

impl CommandExecute for Programs {
    async fn command_execute<'a>(&'a self, program: &'a str, args: &'a [&'a str]) -> Result<CommandOutput> {
        let mut command = std::process::Command::new(program);
        command.args(args).stdin(std::process::Stdio::null());
        let run = runtime::spawn_blocking(move || command.output()).await;
        let run = run.map_err(|error| Error::unexpected(error.to_string()))?;
        let output = run.map_err(|error| Error::config_invalid(error.to_string()))?;
        let status = output.status.code().unwrap_or(-1);
        Ok(CommandOutput { status, stdout: output.stdout, stderr: output.stderr })
    }
}

#[derive(Debug)]
struct Web;

impl HttpSend for Web {
    async fn http_send(&self, request: Request<Bytes>) -> Result<Response<Bytes>> {
        let (head, body) = request.into_parts();
        let host = head.uri.host().unwrap_or_default();
        let is_metadata = head.uri.scheme_str() == Some("http");
        let mut url = head.uri.to_string();
        if let Some(other) = Some(STS_URL).filter(|_| host.starts_with("sts.")).and_then(runtime::environment)
        {
            let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
            url = format!("{}{path}", other.trim_end_matches('/'));
        }
        let timeout = if is_metadata { METADATA_TIMEOUT } else { TIMEOUT };
        let config = HttpConfig {
            connect_timeout: timeout,
            header_timeout: timeout,
            idle_timeout: timeout,
            proxy: if is_metadata { Proxy::Direct } else { Proxy::Environment },
            ..HttpConfig::default()
        };
        let mut sent = HttpRequest::post(url.clone(), body).with_address(head.method, url);
        for (name, value) in &head.headers {
            let is_own = [http::header::HOST, http::header::CONTENT_LENGTH].contains(name);
            if let (Ok(value), false) = (value.to_str(), is_own) {
                sent = sent.secret_header(name.as_str(), &value.into());
            }
        }
        let failed = |error: &HttpError| Error::unexpected(error.to_string());
        let client = HttpClient::shared(&config).map_err(|error| failed(&error))?;
        let sending = client.send(sent, &RetryPolicy::default(), &CancellationToken::new());
        let (status, body) = match sending.await {
            Ok(response) => (response.status, response.body),
            Err(HttpError::Status(refusal)) => (refusal.status, refusal.body),
            Err(error) => return Err(failed(&error)),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        Ok(response)
    }
}
