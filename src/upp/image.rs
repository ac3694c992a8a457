//! Generated images as data classes: images, usage, results, events; and the prompt of a call.
//!
//! Spec: UPP-1.2 §16.

use crate::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::to_python::{ToPython, data_class};
use turntree_upp::image::{self, ImageEvent as CoreEvent, ImageResult as CoreResult};

data_class! {
    /// A generated image.
    ///
    /// Spec: UPP-1.2 §16.
    GeneratedImage as "GeneratedImage" in "turntree.upp" over image::GeneratedImage {
        /// The image, an `Image`.
        image,
        /// Metadata of the vendor, under the provider's name, or None.
        metadata,
    }
}

data_class! {
    /// Usage of an image call, as far as the vendor reports it.
    ///
    /// Spec: UPP-1.2 §16.
    ImageUsage as "ImageUsage" in "turntree.upp" over image::ImageUsage {
        /// Number of generated images.
        images_generated,
        /// Input tokens of the prompt and of images.
        input_tokens,
        /// Output tokens of the generated images.
        output_tokens,
        /// Cost in the vendor's currency.
        cost,
    }
}

data_class! {
    /// The images of a call.
    ///
    /// Spec: UPP-1.2 §16.
    ImageResult as "ImageResult" in "turntree.upp" over CoreResult {
        /// The images, in the vendor's order.
        images,
        /// Metadata of the vendor, under the provider's name, or None.
        metadata,
        /// Usage of the call; None if the vendor does not report it.
        usage,
    }
}

data_class! {
    /// One event of a streamed call: a preview or a finished image.
    ///
    /// Spec: UPP-1.2 §16.
    ImageEvent as "ImageEvent" in "turntree.upp" over CoreEvent {}

    /// Type of the event: `preview` or `complete`.
    #[getter(r#type)]
    fn kind<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyString::intern(slf.py(), Self::of(slf)?.kind()).into_any())
    }

    /// The image: an `Image` of a preview, a `GeneratedImage` of a finished image.
    #[getter]
    fn image<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        match Self::of(slf)? {
            CoreEvent::Preview(event) => event.image.to_python(slf.py()),
            CoreEvent::Complete(event) => event.image.to_python(slf.py()),
            CoreEvent::Unknown(_) => Ok(slf.py().None().into_bound(slf.py())),
        }
    }

    /// Index of the preview or of the image, from 0.
    #[getter]
    fn index(slf: &Bound<'_, Self>) -> PyResult<u32> {
        Ok(match Self::of(slf)? {
            CoreEvent::Preview(event) => event.index,
            CoreEvent::Complete(event) => event.index,
            CoreEvent::Unknown(_) => 0,
        })
    }

    /// Metadata of the vendor, under the provider's name, or None.
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
