/// The text of a JSON object, appended member by member; a member that cannot be written is refused alone.
package struct JSONObjectText {
    private let isPretty: Bool
    private var members = ""

    package init(prettyPrinted: Bool) {
        isPretty = prettyPrinted
    }

    /// Appends a member; the caller ensures that names are distinct.
    ///
    /// - Throws: ``CodingFailure`` for a value without a JSON form; the object is unchanged then.
    package mutating func append(_ name: String, _ value: CodedValue) throws(CodingFailure) {
        var writer = JSONWriter(isPretty: isPretty, indentation: 1)
        writer.newLine()
        writer.writeName(name)
        try writer.write(value)
        if !members.isEmpty { members += "," }
        members += writer.text
    }

    /// The text of the object.
    package var text: String {
        guard !members.isEmpty else { return "{}" }
        return "{" + members + (isPretty ? "\n}" : "}")
    }
}
