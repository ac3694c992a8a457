//! Macros that define events and their unions.

/// Defines an event: the members of the envelope, then its own.
macro_rules! event {
    ($(#[$meta:meta])* $name:ident = $kind:literal { $($members:tt)* }) => {
        turntree_core::json::json_object! {
            $(#[$meta])*
            #[derive(Debug, Clone, PartialEq, Default)]
            pub struct $name {
                tag "type" = $kind,
                /// The id of the event. Servers send a UUID; every text is read.
                pub event_id: Option<String> = "event_id",
                /// When the event was created, in milliseconds since 1970.
                pub timestamp: Option<crate::types::Number> = "timestamp",
                /// The session.
                pub session_id: Option<String> = "session_id",
                /// The position of the event in the log of its session. Only servers set it.
                pub seq: Option<u64> = "seq",
                $($members)*
            }
        }

        impl $crate::event::Envelope for $name {
            fn event_id(&self) -> Option<std::borrow::Cow<'_, str>> {
                self.event_id.as_deref().map(Into::into)
            }

            fn session_id(&self) -> Option<std::borrow::Cow<'_, str>> {
                self.session_id.as_deref().map(Into::into)
            }

            fn seq(&self) -> Option<u64> {
                self.seq
            }

            fn set_event_id(&mut self, id: String) {
                self.event_id = Some(id);
            }

            fn set_timestamp(&mut self, milliseconds: i64) {
                self.timestamp = Some(milliseconds.into());
            }

            fn set_session_id(&mut self, id: String) {
                self.session_id = Some(id);
            }

            fn set_seq(&mut self, seq: u64) {
                self.seq = Some(seq);
            }
        }
    };
}

/// Defines a union of events.
macro_rules! events {
    ($(#[$meta:meta])* $name:ident { $( $(#[$variant_meta:meta])* $variant:ident($type:ty $(, $boxed:ident)?) = $kind:literal, )* }) => {
        turntree_core::json::union::tagged_union! {
            $(#[$meta])*
            pub enum $name by "type" {
                $( $(#[$variant_meta])* $variant($type $(, $boxed)?) = $kind, )*
            }
        }

        impl $name {
            /// The known types.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];
        }

        impl $crate::event::Envelope for $name {
            fn event_id(&self) -> Option<std::borrow::Cow<'_, str>> {
                match self {
                    $( Self::$variant(event) => event.event_id(), )*
                    Self::Unknown(unknown) => $crate::event::unknown::text(unknown, "event_id"),
                }
            }

            fn session_id(&self) -> Option<std::borrow::Cow<'_, str>> {
                match self {
                    $( Self::$variant(event) => event.session_id(), )*
                    Self::Unknown(unknown) => $crate::event::unknown::text(unknown, "session_id"),
                }
            }

            fn seq(&self) -> Option<u64> {
                match self {
                    $( Self::$variant(event) => event.seq(), )*
                    Self::Unknown(unknown) => unknown.members.get("seq").and_then(|seq| seq.to().ok()),
                }
            }

            fn set_event_id(&mut self, id: String) {
                match self {
                    $( Self::$variant(event) => event.set_event_id(id), )*
                    Self::Unknown(unknown) => $crate::event::unknown::set_text(unknown, "event_id", &id),
                }
            }

            fn set_timestamp(&mut self, milliseconds: i64) {
                match self {
                    $( Self::$variant(event) => event.set_timestamp(milliseconds), )*
                    Self::Unknown(unknown) => $crate::event::unknown::set(unknown, "timestamp", &milliseconds),
                }
            }

            fn set_session_id(&mut self, id: String) {
                match self {
                    $( Self::$variant(event) => event.set_session_id(id), )*
                    Self::Unknown(unknown) => $crate::event::unknown::set_text(unknown, "session_id", &id),
                }
            }

            fn set_seq(&mut self, seq: u64) {
                match self {
                    $( Self::$variant(event) => event.set_seq(seq), )*
                    Self::Unknown(unknown) => $crate::event::unknown::set(unknown, "seq", &seq),
                }
            }
        }
    };
}
