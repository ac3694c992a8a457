//! One file a vendor.
