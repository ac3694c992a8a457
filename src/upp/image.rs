//! Generated images as data classes: images, usage, results, events; and the prompt of a call.
//!
//! Spec: UPP-1.2 §16.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::to_python::{ToPython, data_class};
use turntree_upp::image::{self, ImageEvent as CoreEvent, ImageResult as CoreResult};

data_class! {
    /// A finished picture. UPP-1.2 §16.
    GeneratedImage as "GeneratedImage" in "turntree.upp" over image::GeneratedImage {
        /// The picture, an `Image`.
        image,
        /// What else the vendor says of it, under the provider's name; None where it says nothing.
        metadata,
    }
}

data_class! {
    /// What pictures cost, as far as the vendor says. UPP-1.2 §16.
    ImageUsage as "ImageUsage" in "turntree.upp" over image::ImageUsage {
        /// How many pictures.
        images_generated,
        /// Tokens of prompt and pictures that were read.
        input_tokens,
        /// Tokens of the pictures that were made.
        output_tokens,
        /// Money, in the vendor's currency.
        cost,
    }
}

data_class! {
    /// The pictures of a call. UPP-1.2 §16.
    ImageResult as "ImageResult" in "turntree.upp" over CoreResult {
        /// The pictures, in the vendor's order.
        images,
        /// What else the vendor says, under the provider's name; None where it says nothing.
        metadata,
        /// What they cost; None where the vendor does not say.
        usage,
    }
}

data_class! {
    /// One step of a streamed call: a preview or a finished picture. UPP-1.2 §16.
    ImageEvent as "ImageEvent" in "turntree.upp" over CoreEvent {}

    /// What happened: `preview` or `complete`.
    #[getter(r#type)]
    fn kind<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyString::intern(slf.py(), Self::of(slf)?.kind()).into_any())
    }

    /// The picture: an `Image` of a preview, a `GeneratedImage` of a finished one.
    #[getter]
    fn image<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        match Self::of(slf)? {
            CoreEvent::Preview(event) => event.image.to_python(slf.py()),
            CoreEvent::Complete(event) => event.image.to_python(slf.py()),
            CoreEvent::Unknown(_) => Ok(slf.py().None().into_bound(slf.py())),
        }
    }

    /// Which preview, or which picture of the call, from 0.
    #[getter]
    fn index(slf: &Bound<'_, Self>) -> PyResult<u32> {
        Ok(match Self::of(slf)? {
            CoreEvent::Preview(event) => event.index,
            CoreEvent::Complete(event) => event.index,
            CoreEvent::Unknown(_) => 0,
        })
    }

    /// What else the vendor says, under the provider's name; None where it says nothing.
    #[getter]
    fn metadata<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        match Self::of(slf)? {
            CoreEvent::Preview(event) => event.metadata.to_python(slf.py()),
            CoreEvent::Complete(event) => event.image.metadata.to_python(slf.py()),
            CoreEvent::Unknown(_) => Ok(slf.py().None().into_bound(slf.py())),
        }
    }
}

/// A text, or a dict with one as the specification's `{prompt}`.
pub(super) fn prompt_from(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let given = match value.cast::<PyDict>() {
        Ok(dict) => dict.get_item("prompt")?.unwrap_or_else(|| value.clone()),
        Err(_) => value.clone(),
    };
    super::config::text(&given, "prompt")
}
