import ArgumentParser

/// The option `--json` of every verb.
struct JSONOption: ParsableArguments {
    @Flag(help: "Print JSON, one object per line; errors too.")
    var json = false
}

/// The JSON output of a verb that changes an item.
struct ActionLine: Encodable {
    var action: String
    var key: String
    var bytes: Int?
    var destination: String?
}
