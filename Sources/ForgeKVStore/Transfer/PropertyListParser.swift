import ForgeCoding
import Foundation

/// Parses property lists from any program.
enum PropertyListParser {
    /// The dictionary at the top of a property list.
    ///
    /// - Throws: ``CodingFailure`` for data that is not a property list, or has no dictionary at the top.
    static func dictionary(in data: Data) throws(CodingFailure) -> [String: Any] {
        try BinaryPropertyList.check(data)
        let list: Any
        do {
            list = try PropertyListSerialization.propertyList(from: data, options: [], format: nil)
        } catch {
            // Foundation has a limit of its own, without a specific error code.
            throw CodingFailure(
                .decode,
                .corrupted(
                    "the property list is malformed or nests deeper than \(BinaryPropertyList.maximumDepth) levels"))
        }
        guard let dictionary = list as? [String: Any] else {
            throw CodingFailure(.decode, .corrupted("no dictionary at the top of the property list"))
        }
        return dictionary
    }
}
