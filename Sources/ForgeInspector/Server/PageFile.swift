/// The files of the page, which contain no data.
struct PageFile: Sendable {
    var type: String
    var content: [UInt8]

    /// The file at a path of the server; nil if there is none.
    static func file(at path: String) -> PageFile? {
        switch path {
        case "/": PageFile(type: "text/html; charset=utf-8", content: PackageResources.index_html)
        case "/app.js": PageFile(type: "text/javascript; charset=utf-8", content: PackageResources.app_js)
        case "/style.css": PageFile(type: "text/css; charset=utf-8", content: PackageResources.style_css)
        default: nil
        }
    }
}
