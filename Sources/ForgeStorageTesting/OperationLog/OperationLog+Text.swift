extension OperationLog {
    /// The log as text, one line per entry.
    ///
    /// Random parts of temporary names are replaced by numbers in order of appearance.
    public var text: String {
        var names = ReservedNames()
        return entries.map { names.replacing(in: $0.description) }.joined(separator: "\n")
    }
}

extension OperationLog: CustomStringConvertible {
    public var description: String { text }
}

extension OperationLog.Entry: CustomStringConvertible {
    public var description: String {
        switch self {
        case .operation(let record): record.description
        case .acknowledgement(let sequence, let what): "\(sequence) acknowledge \(what)"
        }
    }
}

/// The numbers assigned to random names.
private struct ReservedNames {
    private static let randomLength = 16
    private var numbers: [Substring: Int] = [:]

    mutating func replacing(in line: String) -> String {
        var result = ""
        var rest = line[...]
        while let hash = rest.firstIndex(of: "#") {
            result += rest[..<hash]
            rest = rest[hash...]
            guard let prefix = ["#tmp-", "#trash-"].first(where: { rest.hasPrefix($0) }) else {
                result.append(rest.removeFirst())
                continue
            }
            rest.removeFirst(prefix.count)
            let random = rest.prefix(Self.randomLength)
            result += prefix
            guard random.count == Self.randomLength, !random.contains(where: { $0 == "/" || $0 == " " }) else {
                continue
            }
            let number = numbers[random] ?? numbers.count + 1
            numbers[random] = number
            result += String(number)
            rest.removeFirst(Self.randomLength)
        }
        return result + rest
    }
}
