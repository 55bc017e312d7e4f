/// The text of a JSON object whose members are values of their own: each is written, or refused, alone.
package struct JSONObjectText {
    private let isPretty: Bool
    private var members = ""

    package init(prettyPrinted: Bool) {
        isPretty = prettyPrinted
    }

    /// Appends a member; the caller sees to it that the names differ.
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
