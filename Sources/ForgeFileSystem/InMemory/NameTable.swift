import Foundation

// Memory safety: Every load of eight bytes is compared with the length of the name before. The memory is that of an
// array, for the time of a closure.

/// The names of one directory, as bytes, with their inodes, in insertion order.
///
/// The bytes of all names are in one array, and names are found by a hash that is the same in every run, so that
/// lookups do not allocate and nothing depends on `Hasher`'s seed.
struct NameTable: Sendable {
    struct Entry: Sendable {
        var hash: UInt32
        /// The index of the inode in the table of inodes; negative once the name was removed.
        var inode: Int32
        var start: UInt32
        var nameCount: UInt16
        /// The length of the folded name after the name itself; 0 where names are not folded.
        var keyCount: UInt16

        var isRemoved: Bool { inode < 0 }
        var nameRange: Range<Int> { Int(start)..<Int(start) + Int(nameCount) }
        var keyRange: Range<Int> {
            keyCount == 0 ? nameRange : nameRange.upperBound..<nameRange.upperBound + Int(keyCount)
        }
    }

    private(set) var entries: [Entry] = []
    private var bytes: [UInt8] = []
    /// Indices into `entries` by hash, probed linearly; empty while a linear scan is as fast.
    private var slots: [Int32] = []
    private var usedSlots = 0
    private(set) var count = 0

    private static let scanLimit = 8
    private static let free: Int32 = -1
    private static let deleted: Int32 = -2

    static func hash(_ name: ArraySlice<UInt8>) -> UInt32 { unsafe name.withUnsafeBytes { unsafe hash($0) } }

    private static func hash(_ name: UnsafeRawBufferPointer) -> UInt32 {
        var hash = 0x9E37_79B9_7F4A_7C15 ^ UInt64(truncatingIfNeeded: name.count)
        func mix(_ word: UInt64) {
            hash = (hash ^ word) &* 0xD6E8_FEB8_6659_FD93
            hash ^= hash >> 32
        }
        var offset = 0
        while offset + 8 < name.count {
            unsafe mix(UInt64(littleEndian: name.loadUnaligned(fromByteOffset: offset, as: UInt64.self)))
            offset += 8
        }
        unsafe mix(lastWord(of: name))
        return UInt32(truncatingIfNeeded: hash)
    }

    /// The last eight bytes of a name, or all bytes of a shorter one: unique among short names of the same length.
    @inline(__always) private static func lastWord(of name: UnsafeRawBufferPointer) -> UInt64 {
        if name.count >= 8 {
            return unsafe UInt64(littleEndian: name.loadUnaligned(fromByteOffset: name.count - 8, as: UInt64.self))
        }
        if name.count >= 4 {
            let first = unsafe UInt32(littleEndian: name.loadUnaligned(as: UInt32.self))
            let last = unsafe UInt32(littleEndian: name.loadUnaligned(fromByteOffset: name.count - 4, as: UInt32.self))
            return UInt64(first) << 32 | UInt64(last)
        }
        return unsafe name.reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// The index of the name with this key in `entries`.
    func find(_ key: ArraySlice<UInt8>) -> Int? { unsafe key.withUnsafeBytes { unsafe find($0) } }

    private func find(_ key: UnsafeRawBufferPointer) -> Int? {
        let hash = unsafe Self.hash(key)
        if slots.isEmpty {
            for position in entries.indices.reversed() where unsafe matches(entries[position], key, hash) {
                return position
            }
            return nil
        }
        let mask = slots.count - 1
        var slot = Int(hash) & mask
        while slots[slot] != Self.free {
            let position = Int(slots[slot])
            if position >= 0, unsafe matches(entries[position], key, hash) { return position }
            slot = (slot + 1) & mask
        }
        return nil
    }

    func name(at position: Int) -> ArraySlice<UInt8> { bytes[entries[position].nameRange] }

    /// The name as a separate path, made with one allocation.
    func path(at position: Int) -> POSIXPath {
        let range = entries[position].nameRange
        return unsafe POSIXPath(
            terminated: bytes.withUnsafeBytes { bytes in
                unsafe [UInt8](unsafeUninitializedCapacity: range.count + 1) { buffer, count in
                    let target = UnsafeMutableRawBufferPointer(buffer)
                    unsafe target.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[range]))
                    unsafe target[range.count] = 0
                    count = range.count + 1
                }
            })
    }

    /// Adds a new name; `key` is its folded form, nil for the name itself.
    mutating func insert(_ name: ArraySlice<UInt8>, key: [UInt8]?, hash: UInt32, inode: Int) {
        let entry = Entry(
            hash: hash, inode: Int32(inode), start: UInt32(bytes.count), nameCount: UInt16(name.count),
            keyCount: UInt16(key?.count ?? 0))
        bytes.append(contentsOf: name)
        if let key { bytes.append(contentsOf: key) }
        entries.append(entry)
        count += 1
        if slots.isEmpty, entries.count <= Self.scanLimit { return }
        if (usedSlots + 1) * 4 > slots.count * 3 {
            buildSlots()
        } else {
            place(entries.count - 1)
        }
    }

    mutating func setInode(_ inode: Int, at position: Int) {
        entries[position].inode = Int32(inode)
    }

    mutating func remove(at position: Int) {
        if !slots.isEmpty {
            let mask = slots.count - 1
            var slot = Int(entries[position].hash) & mask
            while slots[slot] != Int32(position) { slot = (slot + 1) & mask }
            slots[slot] = Self.deleted
        }
        entries[position].inode = -1
        count -= 1
        while let last = entries.last, last.isRemoved {
            bytes.removeLast(bytes.count - Int(last.start))
            entries.removeLast()
        }
        if entries.count > 32, entries.count > 2 * count { compact() }
    }

    private func matches(_ entry: Entry, _ key: UnsafeRawBufferPointer, _ hash: UInt32) -> Bool {
        guard entry.hash == hash, !entry.isRemoved else { return false }
        let range = entry.keyRange
        guard range.count == key.count else { return false }
        return unsafe bytes.withUnsafeBytes { bytes in
            let stored = unsafe UnsafeRawBufferPointer(rebasing: bytes[range])
            var offset = 0
            while offset + 8 < key.count {
                let left = unsafe stored.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
                guard unsafe left == key.loadUnaligned(fromByteOffset: offset, as: UInt64.self) else { return false }
                offset += 8
            }
            return unsafe Self.lastWord(of: stored) == Self.lastWord(of: key)
        }
    }

    private mutating func place(_ position: Int) {
        let mask = slots.count - 1
        var slot = Int(entries[position].hash) & mask
        while slots[slot] >= 0 { slot = (slot + 1) & mask }
        if slots[slot] == Self.free { usedSlots += 1 }
        slots[slot] = Int32(position)
    }

    private mutating func buildSlots() {
        var capacity = 64
        while capacity < count * 4 { capacity *= 2 }
        slots = [Int32](repeating: Self.free, count: capacity)
        usedSlots = 0
        for position in entries.indices where !entries[position].isRemoved { place(position) }
    }

    private mutating func compact() {
        let old = (entries: entries, bytes: bytes)
        entries.removeAll(keepingCapacity: true)
        bytes.removeAll(keepingCapacity: true)
        for var entry in old.entries where !entry.isRemoved {
            let range = Int(entry.start)..<entry.keyRange.upperBound
            entry.start = UInt32(bytes.count)
            bytes.append(contentsOf: old.bytes[range])
            entries.append(entry)
        }
        if !slots.isEmpty { buildSlots() }
    }
}

/// The comparison of names in a file system that ignores case or normalisation; names are stored unchanged.
struct NameFolding: Sendable {
    var ignoresCase: Bool
    var ignoresNormalisation: Bool

    var isIdentity: Bool { !ignoresCase && !ignoresNormalisation }

    /// The key that two names share exactly if they are the same name; bytes that are not UTF-8 are unchanged.
    func key(_ name: ArraySlice<UInt8>) -> [UInt8] {
        if name.allSatisfy({ $0 < 0x80 }) {
            guard ignoresCase else { return [UInt8](name) }
            return name.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }
        }
        guard var text = String(validating: name, as: UTF8.self) else { return [UInt8](name) }
        if ignoresNormalisation { text = text.decomposedStringWithCanonicalMapping }
        // The folded text is decomposed too: of the combining marks, folding changes only U+0345, which comes after all
        // others, into a letter.
        if ignoresCase { text = Self.folded(text) }
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
