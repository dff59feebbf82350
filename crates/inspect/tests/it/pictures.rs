//! Drawings of trees, in full: see `tests/snapshots`.

use tenure_inspect::render;

use crate::cluster::{SHOP, WRECK, look, object};
use crate::same;

#[test]
fn a_tree_is_drawn_like_this() {
    let look = look(SHOP);
    let tree = look.tree(object(&look, "d1"), false);
    same("tree.svg", &render::svg(&tree));
    same("tree.dot", &render::dot(&tree));
    same("tree.mmd", &render::mermaid(&tree));
}

#[test]
fn what_is_wrong_can_be_seen() {
    let look = look(WRECK);
    let tree = look.tree(object(&look, "w1"), false);
    same("ring.svg", &render::svg(&tree));
    same("ring.dot", &render::dot(&tree));
    same("ring.mmd", &render::mermaid(&tree));
}

#[test]
fn names_of_strangers_do_not_leave_their_quotes() {
    let look = look(
        "
        ConfigMap shop/a uid=a owner=Bo\"at/<x>&:b1
    ",
    );
    let tree = look.tree(object(&look, "a"), true);
    let svg = render::svg(&tree);
    assert!(svg.contains("Bo&quot;at") && svg.contains("shop/&lt;x&gt;&amp;"), "{svg}");
    assert!(render::dot(&tree).contains("Bo\\\"at"));
    assert!(render::mermaid(&tree).contains("Bo#quot;at"));
}

#[test]
fn a_chain_of_any_depth_is_drawn() {
    let mut text = String::from("ConfigMap shop/o0 uid=o0\n");
    for index in 1..20_000 {
        text.push_str(&format!("ConfigMap shop/o{index} uid=o{index} owner=o{}\n", index - 1));
    }
    let look = look(&text);
    let tree = look.tree(object(&look, "o0"), false);
    assert_eq!(tree.objects.len(), 20_000);
    assert!(render::svg(&tree).ends_with("</svg>\n"));
    assert_eq!(render::dot(&tree).matches("->").count(), 19_999);
}
