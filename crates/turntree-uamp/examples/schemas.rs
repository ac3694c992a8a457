//! Writes the JSON Schemas of the events into the folder `schema` of this crate.

use std::path::Path;

use turntree_uamp::schema;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    let schemas = [
        ("client-event", schema::client_event()),
        ("server-event", schema::server_event()),
        ("system-event", schema::system_event()),
    ];
    for (name, schema) in schemas {
        let text = serde_json::to_string_pretty(&schema)?;
        std::fs::write(folder.join(format!("{name}.schema.json")), text + "\n")?;
    }
    Ok(())
}
