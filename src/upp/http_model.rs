//! A dialect spoken over HTTP.
