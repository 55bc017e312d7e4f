import Foundation

/// A text with the number that the user refers to it by.
struct Note: Codable, Equatable {
    var id: Int
    var created: Date
    var text: String

    /// The first line of the text.
    var title: Substring { text.split(separator: "\n", maxSplits: 1).first ?? "" }
}
