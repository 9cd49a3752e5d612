//! What the stores' documents hold.

use roxmltree::{Document, Node};

/// The texts of the children `fields` of every element `name`, the empty text for one that is absent.
pub(super) fn rows<const N: usize>(xml: &[u8], name: &str, fields: [&str; N]) -> Vec<[String; N]> {
    // Azurite begins with a mark of the byte order.
    let text = String::from_utf8_lossy(xml);
    let text = text.trim_start_matches('\u{feff}');
    let document = Document::parse(text).unwrap_or_else(|error| panic!("no XML: {error}\n{text}"));
    let is_row = |node: &Node<'_, '_>| node.tag_name().name() == name;
    let row = |node: Node<'_, '_>| {
        fields.map(|field| {
            let child = node.children().find(|child| child.tag_name().name() == field);
            child.and_then(|child| child.text()).unwrap_or_default().to_owned()
        })
    };
    document.descendants().filter(is_row).map(row).collect()
}

/// The text with what XML reserves written as it demands.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
