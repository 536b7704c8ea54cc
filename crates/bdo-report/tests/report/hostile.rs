//! Names that try to be more than names.

use crate::fixture::{Names, everything, run_folder};
use bdo_report::kind::Kind;
use bdo_report::report::page_of;

/// Fifty names of subjects and files. Those with markup would set `pwned` if a browser ran them.
pub(crate) fn corpus() -> Names {
    let mut list: Vec<String> = [
        "<script>pwned=1</script>",
        "</script><script>pwned=2</script>",
        "<img src=x onerror=pwned=3>",
        "\"><img src=x onerror=pwned=4>",
        "'><svg onload=pwned=5>",
        "\" onmouseover=\"pwned=6",
        "' onfocus='pwned=7' autofocus='",
        "javascript:pwned=8",
        "<iframe srcdoc='<script>parent.pwned=9</script>'>",
        "<a href=javascript:pwned=10>x</a>",
        "<style>*{display:none}</style>",
        "</style><script>pwned=11</script>",
        "<!-- ",
        "-->",
        "]]>",
        "<![CDATA[<script>pwned=12</script>]]>",
        "&lt;script&gt;pwned=13&lt;/script&gt;",
        "&#60;script&#62;",
        "&quot;",
        "</title><script>pwned=14</script>",
        "</svg><script>pwned=15</script>",
        "</text><foreignObject><body onload=pwned=16>",
        "<math><mi xlink:href=\"data:x,<script>pwned=17</script>\">",
        "<link rel=stylesheet href=//evil.example/x.css>",
        "<base href=//evil.example/>",
        "<meta http-equiv=refresh content=0;url=//evil.example>",
        "<object data=//evil.example/x>",
        "url(//evil.example/x)",
        "{{constructor.constructor('pwned=18')()}}",
        "${pwned=19}",
        "`pwned=20`",
        "\\u003cscript\\u003epwned=21",
        "=HYPERLINK(\"//evil.example\")",
        "@SUM(1+1)*cmd|' /C calc'!A0",
        "+1+cmd",
        "-2+3+cmd",
        "a,b\"c;d",
        "line\nbreak",
        "tab\tstop",
        "carriage\rreturn",
        "nul\u{1}bell\u{7}escape\u{1b}[31m",
        "\u{202e}gnp.exe",
        "\u{2066}isolate\u{2069}",
        "zero\u{200b}width\u{feff}",
        "../../../etc/passwd",
        "..\\..\\windows",
        "CON",
        "\u{1f9e0} brain \u{6f22}\u{5b57} \u{5d0}\u{5d1}",
        "%3Cscript%3Epwned=22%3C/script%3E",
    ]
    .map(str::to_owned)
    .into();
    list.push("long ".repeat(60) + "<b>");
    assert_eq!(list.len(), 50);
    Names { list }
}

#[test]
fn fifty_hostile_names_are_only_text() {
    let folder = tempfile::tempdir().unwrap();
    let html = everything(folder.path(), &corpus());
    // The page has one script of its own; every other opening of an element that could act must be ours too.
    assert_eq!(html.matches("<script").count(), 1);
    assert_eq!(html.matches("<style").count(), 1);
    for bad in [
        "<img",
        "<iframe",
        "<object",
        "<base",
        "<math",
        "<foreignObject",
        "<!--",
        "<a href=javascript",
        "<b>",
        "]]&gt;<",
    ] {
        assert!(!html.contains(bad), "{bad} is in the page");
    }
    // No attribute of ours acts, so outside of quotes none may be there at all.
    let tags = html.split('<').skip(1).filter_map(|part| part.split_once('>')).map(|(tag, _)| tag);
    let names: String = tags.flat_map(|tag| tag.split('"').step_by(2)).collect::<Vec<_>>().join("\n");
    for bad in ["onerror", "onload", "onmouseover", "onfocus", "srcdoc", "autofocus", "evil"] {
        assert!(!names.contains(bad), "{bad} is in a tag");
    }
    assert!(!html.contains('\u{202e}') && !html.contains('\u{1b}') && !html.contains('\u{7}'));
    // They are shown, not lost.
    assert!(html.contains("&lt;img src=x onerror=pwned=3&gt;"));
}

#[test]
fn folders_may_have_hostile_names() {
    let folder = tempfile::tempdir().unwrap();
    for name in corpus().list.iter().filter(|n| !n.contains('/') && !n.starts_with('.') && n.len() < 200) {
        let run = folder.path().join(name);
        run_folder(&run, 3);
        let paths = [(run.clone(), Kind::of(&run).unwrap())];
        let html = page_of(&paths, &format!("bdo report {}", run.display())).unwrap().finish("0.1.0");
        assert_eq!(html.matches("<script").count(), 1, "{name}");
        assert!(!html.contains("<img") && !html.contains("<svg onload"), "{name}");
    }
}
