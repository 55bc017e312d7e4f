import ForgeFileSystem

/// The changes of a run up to a crash, as numbered lines with paths; made for violations only.
struct CrashLog {
    private struct Line {
        var text: String
        /// The file whose content the change concerns, and the range of it.
        var content: (inode: UInt64, range: Range<Int64>)?
    }

    private var lines: [Line] = []
    private var paths: [UInt64: POSIXPath] = [:]

    /// The log of all changes since the last power cut, the first `effectCount` of `run` included.
    init(_ run: RecordedRun<some Sendable>, effectCount: Int) {
        let nodes = run.start.base.nodes
        if let root = nodes.first { name(root.number, "/", in: nodes) }
        for recorded in run.earlierEffects + run.effects.prefix(effectCount) { append(recorded.effect) }
    }

    private mutating func name(_ inode: UInt64, _ path: POSIXPath, in nodes: [DiskImage.Node]) {
        guard paths[inode] == nil else { return }
        paths[inode] = path
        guard let node = nodes.first(where: { $0.number == inode }), node.isDirectory else { return }
        for entry in node.entries { name(entry.inode, path.appending(entry.name), in: nodes) }
    }

    /// The last known path of a file.
    func path(_ inode: UInt64) -> String { paths[inode].map { "\($0)" } ?? "a file without a name" }

    private func path(_ place: FileSystemEffect.Place) -> POSIXPath {
        (paths[place.directory] ?? "?").appending(place.name)
    }

    private mutating func append(_ effect: FileSystemEffect) {
        var line = Line(text: "")
        switch effect {
        case .create(let node): line.text = node.isDirectory ? "make a directory" : "make a file"
        case .write(let inode, let offset, let bytes, _):
            line.text = "write \(bytes.count) bytes at \(offset) to \(path(inode))"
            line.content = (inode, offset..<offset + Int64(bytes.count))
        case .setSize(let inode, let size, _):
            line.text = "truncate \(path(inode)) to \(size) bytes"
            line.content = (inode, size..<Int64.max)
        case .reserve(let inode, let end, _):
            line.text = "reserve \(end) bytes for \(path(inode))"
            line.content = (inode, 0..<max(end, 1))
        case .store(let inode, let offset, let bytes, _):
            line.text = "store \(bytes.count) bytes at \(offset) in a mapping of \(path(inode))"
            line.content = (inode, offset..<offset + Int64(bytes.count))
        case .writeBack(let inode, let range, let succeeds):
            line.text = "write back \(range) of \(path(inode))" + (succeeds ? "" : ", which fails")
        case .setAttributes(let inode, _): line.text = "set attributes of \(path(inode))"
        case .synchronize(let inode, let level, let succeeds):
            line.text = "synchronize \(path(inode)) (.\(level))" + (succeeds ? "" : ", which fails")
        case .addName(let place, let inode):
            line.text = "\(paths[inode] == nil ? "create" : "link") \(path(place))"
            paths[inode] = path(place)
        case .removeName(let place, _): line.text = "unlink \(path(place))"
        case .moveName(let place, let newPlace, let inode):
            line.text = "rename \(path(place)) to \(path(newPlace))"
            paths[inode] = path(newPlace)
        case .exchangeNames(let place, let inode, let other, let otherInode):
            line.text = "exchange \(path(place)) and \(path(other))"
            paths[inode] = path(other)
            paths[otherInode] = path(place)
        case .mark(let number): line.text = "mark \(number)"
        }
        lines.append(line)
    }

    /// A line by its number, counted from 1: "line 3, unlink /a".
    func line(_ number: Int) -> String {
        guard lines.indices.contains(number - 1) else { return "an earlier change" }
        return "line \(number), \(lines[number - 1].text)"
    }

    /// The last line that has changed content of a file in a range.
    func lastChange(of inode: UInt64, in range: Range<Int64>) -> String {
        let index = lines.lastIndex { line in
            line.content.map { $0.inode == inode && $0.range.overlaps(range) } ?? false
        }
        return index.map { line($0 + 1) } ?? "a change of \(path(inode))"
    }

    /// The last lines, with their numbers.
    var text: [String] {
        let shown = lines.enumerated().suffix(40).map { "\($0.offset + 1). \($0.element.text)" }
        return lines.count > shown.count ? ["…"] + shown : shown
    }
}
