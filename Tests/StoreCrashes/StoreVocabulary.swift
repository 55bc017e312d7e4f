import ForgeStorageTesting

/// The calls of one kind of store, from which programs are generated.
package struct StoreVocabulary: Sendable {
    /// The names of values.
    package var names: [String]

    /// The names of directories of values.
    package var trees: [String] = []

    /// Whether a value can be created exclusively.
    package var creates = false

    /// Whether several values can be changed atomically.
    package var batches = false

    /// All other calls.
    package var others: [StoreCall]

    private static let sizes = [0, 1, 40, 40, 40, 511, 700, 1300, 1300, 4096, 5000, 9000]

    /// A program of 3 to 10 calls determined by the seed. Each value has a distinct letter.
    package func program(seed: UInt64) -> [StoreCall] {
        var generator = SplitMix64(seed: seed)
        let length = Int.random(in: 3...10, using: &generator)
        return (0..<length).map { call(letter: 0x61 + UInt8($0), using: &generator) }
    }

    /// Two calls determined by the seed, with letters that programs do not use.
    func continuation(seed: UInt64) -> [StoreCall] {
        var generator = SplitMix64(seed: seed)
        return (0..<2).map { call(letter: 0x6B + UInt8($0), using: &generator) }
    }

    private func call(letter: UInt8, using generator: inout SplitMix64) -> StoreCall {
        func any<Element>(of elements: [Element], or fallback: Element) -> Element {
            elements.randomElement(using: &generator) ?? fallback
        }
        let name = any(of: names, or: "a")
        let value = StoreValue(letter: letter, count: any(of: Self.sizes, or: 0))
        switch Int.random(in: 0..<100, using: &generator) {
        case 0..<10 where creates: return .create(name, value)
        case 10..<25 where batches: return .batch(changes(letter: letter, using: &generator))
        case 0..<55: return .set(name, value)
        case 55..<70: return .remove(name)
        case 70..<80 where !trees.isEmpty: return .removeTree(any(of: trees, or: name))
        default: return any(of: others, or: .reopen)
        }
    }

    private func changes(letter: UInt8, using generator: inout SplitMix64) -> [StoreChange] {
        (0..<Int.random(in: 1...4, using: &generator)).map { index in
            let name = names.randomElement(using: &generator) ?? "a"
            guard Int.random(in: 0..<4, using: &generator) > 0 else { return StoreChange(name, nil) }
            // A distinct letter for each value, so that no two batches can be confused.
            let count = Self.sizes.randomElement(using: &generator) ?? 0
            return StoreChange(name, StoreValue(letter: letter - UInt8(0x10 * index), count: count))
        }
    }
}
