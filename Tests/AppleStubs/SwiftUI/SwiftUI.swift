// The declarations of SwiftUI that the project uses, without effect.
public import Observation

@preconcurrency @MainActor
public protocol DynamicProperty {
    mutating func update()
}

extension DynamicProperty {
    public mutating func update() {}
}

@propertyWrapper
public struct Environment<Value>: DynamicProperty {
    public nonisolated init(_ type: Value.Type) where Value: AnyObject, Value: Observable { fatalError() }
    public nonisolated init<Object: AnyObject & Observable>(_ type: Object.Type) where Value == Object? { fatalError() }
    public var wrappedValue: Value { fatalError() }
}

@propertyWrapper
public struct State<Value>: DynamicProperty {
    public nonisolated init(wrappedValue: Value) { fatalError() }
    public var wrappedValue: Value {
        get { fatalError() }
        nonmutating set { _ = newValue }
    }
    public var projectedValue: Binding<Value> { fatalError() }
}

@propertyWrapper
public struct Binding<Value> {
    @preconcurrency
    public init(
        get: @escaping @isolated(any) @Sendable () -> Value, set: @escaping @isolated(any) @Sendable (Value) -> Void
    ) { fatalError() }

    public var wrappedValue: Value {
        get { fatalError() }
        nonmutating set { _ = newValue }
    }
    public var projectedValue: Binding<Value> { self }
}

extension Binding: Sendable where Value: Sendable {}

@preconcurrency @MainActor
public protocol View {
    associatedtype Body: View
    @ViewBuilder var body: Body { get }
}

extension Optional: View where Wrapped: View {
    public var body: Never { return fatalError() }
}

extension Never: View {
    public var body: Never { return fatalError() }
}

extension View {
    public func environment<Object: AnyObject & Observable>(_ object: Object?) -> some View { self }
    public func task(_ action: @escaping @Sendable () async -> Void) -> some View { self }
    public func tag(_ tag: some Hashable) -> some View { self }
    public func alert(_ title: String, isPresented: Binding<Bool>) -> some View { self }
}

@resultBuilder
public struct ViewBuilder {
    public static func buildExpression<Content: View>(_ content: Content) -> Content { content }
    public static func buildBlock() -> EmptyView { EmptyView() }
    public static func buildIf<Content: View>(_ content: Content?) -> Content? { content }
    public static func buildBlock<each Content: View>(_ content: repeat each Content) -> TupleView<
        (repeat each Content)
    > {
        TupleView()
    }
}

public struct EmptyView: View {
    public init() {}
    public var body: Never { return fatalError() }
}

public struct TupleView<Content>: View {
    public init() {}
    public var body: Never { return fatalError() }
}

public struct Text: View {
    public init(_ text: String) {}
    public var body: Never { return fatalError() }
}

public struct Toggle: View {
    public init(_ title: String, isOn: Binding<Bool>) {}
    public var body: Never { return fatalError() }
}

public struct Stepper: View {
    public init(_ title: String, value: Binding<Int>) {}
    public var body: Never { return fatalError() }
}

public struct Button: View {
    public init(_ title: String, action: @escaping @MainActor () -> Void) {}
    public var body: Never { return fatalError() }
}

public struct Form<Content: View>: View {
    public init(@ViewBuilder content: () -> Content) {}
    public var body: Never { return fatalError() }
}

public struct Picker<Value: Hashable, Content: View>: View {
    public init(_ title: String, selection: Binding<Value>, @ViewBuilder content: () -> Content) {}
    public var body: Never { return fatalError() }
}

public struct ForEach<Data: RandomAccessCollection, ID: Hashable, Content: View>: View {
    public init(_ data: Data, id: KeyPath<Data.Element, ID>, @ViewBuilder content: (Data.Element) -> Content) {}
    public var body: Never { return fatalError() }
}

@preconcurrency @MainActor
public protocol Scene {}

public struct WindowGroup<Content: View>: Scene {
    public init(@ViewBuilder content: () -> Content) {}
}

@preconcurrency @MainActor
public protocol App {
    associatedtype Body: Scene
    var body: Body { get }
    init()
}

extension App {
    public static func main() {}
}
