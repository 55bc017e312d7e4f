import Foundation

/// The comparison of names in a file system that ignores case or normalisation; names are stored unchanged.
struct NameFolding: Sendable {
    var ignoresCase: Bool
    var ignoresNormalisation: Bool

    var isIdentity: Bool { !ignoresCase && !ignoresNormalisation }

    /// The key that two names share exactly if they are the same name; bytes that are not UTF-8 are unchanged.
    func key(_ name: UnsafeRawBufferPointer) -> [UInt8] {
        if name.allSatisfy({ $0 < 0x80 }) {
            guard ignoresCase else { return [UInt8](name) }
            return name.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }
        }
        guard var text = String(validating: name, as: UTF8.self) else { return [UInt8](name) }
        if ignoresNormalisation { text = text.decomposedStringWithCanonicalMapping }
        if ignoresCase {
            text = Self.folded(text)
            if ignoresNormalisation { text = text.decomposedStringWithCanonicalMapping }
        }
        return [UInt8](text.utf8)
    }

    /// Full case folding (Unicode 3.13, toCasefold): through upper case, so that `ß`, its capital and `ss` are equal.
    private static func folded(_ text: String) -> String {
        var folded = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            // A dotless i has the upper case of `i`, but folds to itself.
            guard scalar != "\u{131}" else {
                folded.append(scalar)
                continue
            }
            let upper = scalar.properties.lowercaseMapping.unicodeScalars.lazy
                .flatMap { $0.properties.uppercaseMapping.unicodeScalars }
            for scalar in upper { folded.append(contentsOf: scalar.properties.lowercaseMapping.unicodeScalars) }
        }
        return String(folded)
    }
}
