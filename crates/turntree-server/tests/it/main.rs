//! The native server over real sockets.

#![cfg(test)]

mod application;
mod authentication;
mod http1;
mod http2;
mod http2_floods;
mod http2_websocket;
mod jwt;
mod shutdown;
mod websocket;
